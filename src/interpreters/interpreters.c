/* The table of interpreters, with the drivers that the build laid into brig as bytes. */
#include "interpreters/interpreters.h"

/* drivers.S, which the build writes */
extern const char driver_python_py_start[], driver_python_py_end[];
extern const char driver_node_cjs_start[], driver_node_cjs_end[];
extern const char driver_bash_sh_start[], driver_bash_sh_end[];

static const char *const python_argv[] = {"python3", INTERPRETER_DIR "/python.py", NULL};
static const char *const node_argv[] = {"node", INTERPRETER_DIR "/node.cjs", NULL};
static const char *const bash_argv[] = {"bash", INTERPRETER_DIR "/bash.sh", NULL};

const struct interpreter *interpreter_get(enum interp_language l)
{
    /* clang-format off */
    static struct interpreter all[INTERP_COUNT] = {
        [INTERP_PYTHON] = {"python", python_argv, "python.py", driver_python_py_start, 0},
        [INTERP_JAVASCRIPT] = {"javascript", node_argv, "node.cjs", driver_node_cjs_start, 0},
        [INTERP_BASH] = {"bash", bash_argv, "bash.sh", driver_bash_sh_start, 0},
    };
    /* clang-format on */
    /* The compiler does not accept these differences as constants. */
    all[INTERP_PYTHON].len = (size_t)(driver_python_py_end - driver_python_py_start);
    all[INTERP_JAVASCRIPT].len = (size_t)(driver_node_cjs_end - driver_node_cjs_start);
    all[INTERP_BASH].len = (size_t)(driver_bash_sh_end - driver_bash_sh_start);
    return l > INTERP_NONE && l < INTERP_COUNT ? &all[l] : NULL;
}
