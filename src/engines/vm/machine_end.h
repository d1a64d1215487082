/* How a machine comes to its end. */
#pragma once

enum machine_end {
    MACHINE_GOES_ON,
    MACHINE_OFF,   /* the guest switched it off */
    MACHINE_RESET, /* the guest's kernel gave up: it restarts after a panic */
    MACHINE_FAULT, /* its processor found nothing to go on with: a triple fault */
    MACHINE_BROKEN,
    MACHINE_HALTED, /* the monitor stopped this processor, and it has nothing half done */
};
