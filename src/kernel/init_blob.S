/* build/brig-init as bytes; the path comes from the build. */
        .section .rodata
        .global init_blob_start
        .global init_blob_end
        .balign 16
init_blob_start:
        .incbin BRIG_INIT_PATH
init_blob_end:
        .section .note.GNU-stack,"",%progbits
