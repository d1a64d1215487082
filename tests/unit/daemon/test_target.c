#include "daemon/api/target.h"

#include <criterion/criterion.h>
#include <string.h>

#define ID "abcdefghij0123456789"

static struct api_target aimed(struct target_head head)
{
    struct api_target a;
    struct err err = ERR_INIT;
    cr_assert_eq(target_parse(&head, &a, &err), 0, "%s", err.message);
    return a;
}

static void refused(struct target_head head)
{
    struct api_target a;
    struct err err = ERR_INIT;
    cr_assert_lt(target_parse(&head, &a, &err), 0);
    cr_assert(err.message[0]);
}

Test(target, plain_requests_are_for_the_api)
{
    cr_assert_eq(aimed((struct target_head){.host = "localhost", .target = "/sandboxes"}).face,
                 FACE_API);
    cr_assert_eq(aimed((struct target_head){.target = "/files?path=x"}).face, FACE_API);
}

Test(target, host_names_port_and_sandbox)
{
    struct api_target a =
        aimed((struct target_head){.host = "3000-" ID ".localhost", .target = "/x"});
    cr_assert_eq(a.face, FACE_PORT);
    cr_assert_str_eq(a.id, ID);
    cr_assert_eq(a.port, 3000);
    a = aimed((struct target_head){.host = "49983-" ID ".a.example", .target = "/health"});
    cr_assert_eq(a.face, FACE_ENVD);
    a = aimed((struct target_head){.host = "49999-" ID ".a.example", .target = "/execute"});
    cr_assert_eq(a.face, FACE_INTERPRETER);
}

Test(target, other_hosts_name_nothing)
{
    static const char *const hosts[] = {"3000-" ID,
                                        "0-" ID ".x",
                                        "65536-" ID ".x",
                                        "03-" ID ".x",
                                        "-" ID ".x",
                                        "80-abcdefghij012345678.x",
                                        "80-abcdefghij01234567890.x",
                                        "80-abcdefghij_123456789.x",
                                        "80" ID ".x",
                                        "80-.x",
                                        ""};
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct api_target a = aimed((struct target_head){.host = hosts[i], .target = "/"});
        cr_assert_eq(a.face, FACE_API, "%s", hosts[i]);
        cr_assert_str_eq(a.id, "");
    }
}

Test(target, headers_name_port_and_sandbox)
{
    struct api_target a = aimed((struct target_head){.id = ID, .target = "/"});
    cr_assert_eq(a.face, FACE_ENVD);
    cr_assert_eq(a.port, ENVD_PORT);
    a = aimed((struct target_head){.id = ID, .port = "49999", .target = "/"});
    cr_assert_eq(a.face, FACE_INTERPRETER);
    a = aimed((struct target_head){.id = ID, .port = "8000", .target = "/files?signature=v1_x"});
    cr_assert_eq(a.face, FACE_PORT);
    cr_assert_not(a.is_signed);
}

Test(target, malformed_ids_and_ports_are_refused)
{
    static const char *const ids[] = {"",
                                      "../../etc/passwd",
                                      "abc",
                                      "ABCDEFGHIJ0123456789",
                                      "abcdefghij012345678-",
                                      "abcdefghij0123456789x",
                                      "abcdefghij\xc3\xa9"
                                      "12345678",
                                      "-bcdefghij0123456789"};
    static const char *const ports[] = {"", "0", "65536", "+80", "080", "80 ", "8e1", "-1"};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        refused((struct target_head){.id = ids[i], .target = "/"});
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
        refused((struct target_head){.id = ID, .port = ports[i], .target = "/"});
    refused((struct target_head){.port = "80", .target = "/"});
}

Test(target, host_and_headers_must_agree)
{
    refused(
        (struct target_head){.host = "80-" ID ".x", .id = "zzzzzzzzzzzzzzzzzzzz", .target = "/"});
    refused((struct target_head){.host = "80-" ID ".x", .id = ID, .port = "81", .target = "/"});
    cr_assert_eq(
        aimed((struct target_head){.host = "80-" ID ".x", .id = ID, .port = "80", .target = "/"})
            .face,
        FACE_PORT);
}

Test(target, a_signature_makes_files_envd)
{
    struct api_target a =
        aimed((struct target_head){.target = "/files?path=%2Fx&signature=v1_abc"});
    cr_assert_eq(a.face, FACE_ENVD);
    cr_assert(a.is_signed);
    cr_assert_str_eq(a.id, "");
    cr_assert_not(aimed((struct target_head){.target = "/files/x?signature=v1_abc"}).is_signed);
    cr_assert_not(aimed((struct target_head){.target = "/filesx?signature=v1_abc"}).is_signed);
}

Test(target, queries_are_decoded_strictly)
{
    char out[16];
    cr_assert_eq(target_query("/x?a=1&path=%2Fa+b%2B&path=2", "path", out, sizeof(out), NULL), 1);
    cr_assert_str_eq(out, "/a b+");
    cr_assert_eq(target_query("/x?a", "a", out, sizeof(out), NULL), 1);
    cr_assert_str_eq(out, "");
    cr_assert_eq(target_query("/x", "a", out, sizeof(out), NULL), 0);
    cr_assert_eq(target_query("/x?b=a", "a", out, sizeof(out), NULL), 0);
    cr_assert_lt(target_query("/x?a=%", "a", out, sizeof(out), NULL), 0);
    cr_assert_lt(target_query("/x?a=%4", "a", out, sizeof(out), NULL), 0);
    cr_assert_eq(target_query("/x?a=%41", "a", out, sizeof(out), NULL), 1);
    cr_assert_str_eq(out, "A");
    cr_assert_lt(target_query("/x?a=%00", "a", out, sizeof(out), NULL), 0);
    cr_assert_lt(target_query("/x?a=%ff", "a", out, sizeof(out), NULL), 0);
    cr_assert_lt(target_query("/x?a=0123456789012345", "a", out, sizeof(out), NULL), 0);
}

Test(target, paths_match_whole_segments)
{
    struct params p;
    cr_assert(path_match("/sandboxes/{id}/timeout", "/sandboxes/abc/timeout", &p));
    cr_assert_eq(p.count, 1);
    cr_assert_str_eq(p.value[0], "abc");
    cr_assert_not(path_match("/sandboxes/{id}", "/sandboxes/", &p));
    cr_assert_not(path_match("/sandboxes/{id}", "/sandboxes/a/b", &p));
    cr_assert_not(path_match("/sandboxes", "/sandboxes/", &p));
    cr_assert_not(path_match("/sandboxes", "sandboxes", &p));
    cr_assert_not(path_match("/sandboxes", "", &p));
    cr_assert(path_match("/sandboxes", "/sandboxes", &p));
    char longer[PARAM_LEN + 16] = "/sandboxes/";
    memset(longer + 11, 'a', PARAM_LEN);
    cr_assert_not(path_match("/sandboxes/{id}", longer, &p));
}
