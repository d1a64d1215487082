/* Any bytes as the stream of an interpreter's driver, in pieces of any size: every frame that is
 * accepted is what interp.h says it is, and written anew it reads the same. */
#include "wire/interp.h"

#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_data(const struct json *data)
{
    static const char known[] = " text html markdown svg png jpeg pdf latex json javascript data "
                                "chart ";
    require(json_type(data) == JSON_OBJECT);
    for (size_t i = 0; i < json_count(data); i++) {
        char word[32] = " ";
        require(strlen(json_key_at(data, i)) < sizeof word - 3);
        strncat(word, json_key_at(data, i), sizeof word - 3);
        strncat(word, " ", 2);
        require(strstr(known, word) != NULL);
        require(json_get(data, json_key_at(data, i)) == json_value_at(data, i));
        require(json_type(json_value_at(data, i)) != JSON_NULL);
    }
}

static void check_again(const struct interp_said *said)
{
    struct buf text;
    struct json_writer w;
    struct interp_said again;
    buf_init(&text, 128u << 20);
    jw_init(&w, &text, false);
    jw_json(&w, said->tree);
    require(!text.failed && interp_parse(text.data, text.len, &again, NULL) == 0);
    require(again.word == said->word && again.id == said->id && again.main == said->main);
    require(json_count(again.data) == json_count(said->data));
    interp_said_done(&again);
    buf_done(&text);
}

/* In pieces: the same verdict. */
static void check_pieces(const char *text, size_t len, bool good)
{
    struct interp_parsing parsing;
    struct interp_said said = {0};
    char *place = malloc(len + 1);
    require(place != NULL);
    memcpy(place, text, len);
    int rc = interp_parsing_begin(&parsing, place, len, 0, NULL);
    while (rc == 0)
        rc = interp_parsing_next(&parsing, 1 + len % 60, &said, NULL);
    require((rc > 0) == good && (said.tree != NULL) == good);
    interp_parsing_end(&parsing);
    interp_said_done(&said);
    free(place);
}

static void check(const char *text, size_t len)
{
    struct interp_said said;
    struct err err = ERR_INIT;
    check_pieces(text, len, interp_parse(text, len, &said, NULL) == 0);
    interp_said_done(&said);
    if (interp_parse(text, len, &said, &err) < 0) {
        require(err.code != ERR_NONE && !said.tree);
        return;
    }
    require(said.tree && said.word <= INTERP_END && said.id <= INT64_MAX && said.count >= 0);
    if (said.word == INTERP_RESULT)
        check_data(said.data);
    if (said.word == INTERP_ERROR)
        require(strlen(said.name) <= INTERP_NAME_MAX && strlen(said.value) <= INTERP_VALUE_MAX &&
                strlen(said.traceback) <= INTERP_TRACEBACK_MAX);
    check_again(&said);
    interp_said_done(&said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says how large the pieces are; 0: all of it is one frame's text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct interp_reader reader;
    if (size == 0)
        return 0;
    size_t piece = data[0];
    data++;
    size--;
    if (piece == 0) {
        check((const char *)data, size);
        return 0;
    }
    interp_reader_init(&reader);
    for (int rc = 0; rc >= 0 && size > 0;) {
        void *room;
        size_t room_len, len;
        const char *text;
        if (interp_reader_room(&reader, &room, &room_len, NULL) < 0)
            break;
        require(room_len >= 4096);
        len = size < piece ? size : piece;
        memcpy(room, data, len);
        interp_reader_add(&reader, len);
        data += len;
        size -= len;
        while ((rc = interp_reader_next(&reader, &text, &len, NULL)) == 1)
            check(text, len);
    }
    interp_reader_done(&reader);
    return 0;
}
