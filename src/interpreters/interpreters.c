/* The table of interpreters, with the drivers that the build laid into brig as bytes. */
#include "interpreters/interpreters.h"

#include "base/cleanup.h"

#define AT(name) INTERPRETER_DIR "/" name

/* drivers.S, which the build writes */
extern const char driver_python_py_start[], driver_python_py_end[];
extern const char driver_charts_py_start[], driver_charts_py_end[];
extern const char driver_ipython_py_start[], driver_ipython_py_end[];
extern const char driver_node_cjs_start[], driver_node_cjs_end[];
extern const char driver_bash_sh_start[], driver_bash_sh_end[];
extern const char driver_cells_R_start[], driver_cells_R_end[];
extern const char driver_Cells_java_start[], driver_Cells_java_end[];

static const char *const python_argv[] = {"python3", AT("python.py"), NULL};
static const char *const node_argv[] = {"node", AT("node.cjs"), NULL};
static const char *const bash_argv[] = {"bash", AT("bash.sh"), NULL};
static const char *const typescript_argv[] = {"node", AT("node.cjs"), "typescript", NULL};
static const char *const r_argv[] = {"Rscript", "--vanilla", AT("cells.R"), NULL};
/* A small heap, few threads, no time for what pays off in an hour: most cells are short. */
static const char *const java_argv[] = {"java",
                                        "-XX:+UseSerialGC",
                                        "-XX:TieredStopAtLevel=1",
                                        "--add-opens=java.base/java.io=ALL-UNNAMED",
                                        AT("Cells.java"),
                                        NULL};

static const struct {
    const char *name, *start, *end;
} files[] = {
    {"python.py", driver_python_py_start, driver_python_py_end},
    {"charts.py", driver_charts_py_start, driver_charts_py_end},
    {"ipython.py", driver_ipython_py_start, driver_ipython_py_end},
    {"node.cjs", driver_node_cjs_start, driver_node_cjs_end},
    {"bash.sh", driver_bash_sh_start, driver_bash_sh_end},
    {"cells.R", driver_cells_R_start, driver_cells_R_end},
    {"Cells.java", driver_Cells_java_start, driver_Cells_java_end},
};
_Static_assert(ARRAY_LEN(files) == INTERPRETER_FILES, "each has its place inside");

const struct interpreter *interpreter_get(enum interp_language l)
{
    static const struct interpreter all[INTERP_COUNT] = {
        [INTERP_PYTHON] = {"python", python_argv},
        [INTERP_JAVASCRIPT] = {"javascript", node_argv},
        [INTERP_BASH] = {"bash", bash_argv},
        [INTERP_TYPESCRIPT] = {"typescript", typescript_argv},
        [INTERP_R] = {"r", r_argv},
        [INTERP_JAVA] = {"java", java_argv},
    };
    return l > INTERP_NONE && l < INTERP_COUNT ? &all[l] : NULL;
}

struct interpreter_file interpreter_file(size_t i)
{
    /* No constant, as the compiler sees it. */
    return (struct interpreter_file){files[i].name, files[i].start,
                                     (size_t)(files[i].end - files[i].start)};
}
