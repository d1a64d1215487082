# Runs cells of R for brig: requests come over descriptor 3, results go back over 4 (wire/interp.h).
#
# One process is one context: cells are evaluated in the global environment, what they print goes to descriptors 1 and 2.
# R cannot use a descriptor that it inherited, and must not open it anew (that needs its owner's rights): a `cat` stands at
# either end, which no interrupt ends. Shares its process with the code that it runs and protects nobody. R 4.0 or newer.
local({
    TEXT_MAX <- 1048576L
    VALUE_MAX <- 32768L
    PICTURE_MAX <- 10485760L
    CELLS_MAX <- 10000L

    # Neither keeps what is the other's: who waits for the end of this program waits for these descriptors to be closed.
    requests <- pipe("trap '' INT; exec cat <&3 3<&- 4>&- 2>/dev/null", "rb")
    answers <- pipe("trap '' INT; exec cat >&4 3<&- 4>&- 2>/dev/null", "wb")
    count <- 0L

    # Where install.packages() may write, as pip and npm have one; and whence it fetches, unless somebody has said so.
    folder <- path.expand(Sys.getenv("R_LIBS_USER", "~/R/library"))
    if (dir.exists(folder) || dir.create(folder, FALSE, TRUE)) .libPaths(c(folder, .libPaths()))
    if (identical(unname(getOption("repos")), "@CRAN@")) options(repos = c(CRAN = "https://cloud.r-project.org"))
    plots <- file.path(tempdir(), "brig-plot-%03d.png")

    # ---- frames ----

    say <- function(...) {
        body <- charToRaw(enc2utf8(paste0(...)))
        writeBin(c(writeBin(length(body), raw(), endian = "little"), body), answers)
        flush(answers)
    }

    read_exactly <- function(size) {
        parts <- raw(0)
        while (length(parts) < size) {
            part <- readBin(requests, "raw", size - length(parts))
            if (length(part) == 0) return(NULL)
            parts <- c(parts, part)
        }
        parts
    }

    hear <- function() {
        header <- read_exactly(4L)
        if (is.null(header)) return(NULL)
        body <- read_exactly(readBin(header, "integer", endian = "little"))
        if (is.null(body)) return(NULL)
        text <- rawToChar(body)
        Encoding(text) <- "UTF-8"
        text
    }

    # ---- JSON as the front writes it: the members in their order, no spaces ----
    #
    # Control characters do not occur in it: two of them stand for the escaped backslash and the escaped quote meanwhile.

    replace <- function(text, what, by) gsub(what, by, text, fixed = TRUE)

    split <- function(frame) {
        frame <- replace(replace(frame, "\\\\", "\001"), "\\\"", "\002")
        strsplit(frame, "\"", fixed = TRUE)[[1]]
    }

    character_of <- function(escape) {
        codes <- strtoi(substring(escape, seq(3, nchar(escape), 6), seq(6, nchar(escape), 6)), 16L)
        if (length(codes) == 2) codes <- 65536L + bitwAnd(codes[1], 1023L) * 1024L + bitwAnd(codes[2], 1023L)
        if (codes == 0L || (codes >= 55296L && codes < 57344L)) "\ufffd" else intToUtf8(codes)
    }

    unescape <- function(text) {
        for (pair in list(c("\\n", "\n"), c("\\r", "\r"), c("\\t", "\t"), c("\\b", "\b"), c("\\f", "\f"), c("\\/", "/")))
            text <- replace(text, pair[1], pair[2])
        found <- gregexpr("\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\\\u[0-9a-fA-F]{4}", text)
        regmatches(text, found) <- lapply(regmatches(text, found), function(all) vapply(all, character_of, ""))
        replace(replace(text, "\001", "\\"), "\002", "\"")
    }

    quoted <- function(text, most) {
        text <- enc2utf8(paste(as.character(text), collapse = "\n"))
        text <- iconv(text, "UTF-8", "UTF-8", sub = "?")
        if (nchar(text, "bytes") > most)
            text <- paste0(substr(text, 1, most %/% 5), "\n… (", nchar(text, "bytes"), " bytes in all)")
        text <- replace(replace(text, "\\", "\\\\"), "\"", "\\\"")
        text <- replace(replace(replace(text, "\n", "\\n"), "\r", "\\r"), "\t", "\\t")
        paste0("\"", gsub("[\001-\037]", "\ufffd", text), "\"")
    }

    base64 <- function(bytes) {
        letters64 <- strsplit("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", "")[[1]]
        short <- (3L - length(bytes) %% 3L) %% 3L
        m <- matrix(as.integer(c(bytes, raw(short))), nrow = 3)
        sums <- m[1, ] * 65536L + m[2, ] * 256L + m[3, ]
        indices <- rbind(sums %/% 262144L, sums %/% 4096L %% 64L, sums %/% 64L %% 64L, sums %% 64L)
        made <- letters64[indices + 1L]
        if (short > 0) made[seq(length(made) - short + 1L, length(made))] <- "="
        paste(made, collapse = "")
    }

    # ---- what a value looks like ----

    plain <- function(column) {
        if (is.logical(column)) text <- ifelse(column, "true", "false")
        else if (is.numeric(column) && !is.object(column)) text <- format(column, digits = 15, trim = TRUE, scientific = FALSE)
        else text <- vapply(as.character(column), quoted, "", VALUE_MAX)
        good <- !is.na(column) & (!is.numeric(column) | is.object(column) | is.finite(column))
        paste0("[", paste(ifelse(good, text, "null"), collapse = ","), "]")
    }

    look <- function(value) {
        members <- paste0("\"text\":", quoted(utils::capture.output(print(value)), TEXT_MAX))
        if (is.data.frame(value) && length(value) * nrow(value) <= CELLS_MAX && !anyDuplicated(names(value)) &&
            all(vapply(value, is.atomic, NA))) {
            columns <- mapply(function(name, column) paste0(quoted(name, VALUE_MAX), ":", plain(column)), names(value), value)
            members <- paste0(members, ",\"data\":{", paste(columns, collapse = ","), "}")
        }
        members
    }

    send <- function(id, main, members) say("{\"type\":\"result\",\"id\":", id, ",\"main\":", main, ",\"data\":{", members, "}}")

    send_plots <- function(id) {
        if (grDevices::dev.cur() > 1) grDevices::graphics.off()
        for (path in Sys.glob(file.path(tempdir(), "brig-plot-*.png"))) {
            size <- file.size(path)
            if (size > 0 && size <= PICTURE_MAX) send(id, "false", paste0("\"png\":\"", base64(readBin(path, "raw", size)), "\""))
            unlink(path)
        }
    }

    # ---- cells ----

    run <- function(code, id) {
        for (part in as.list(cells <- parse(text = code, keep.source = FALSE))) {
            if (exists("shown", inherits = FALSE) && shown$visible) print(shown$value)
            shown <- withVisible(eval(part, globalenv()))
        }
        flush(stdout())
        if (length(cells) > 0 && shown$visible && !is.null(shown$value)) send(id, "true", look(shown$value))
    }

    complain <- function(id, name, value, trace) {
        flush(stdout())
        say("{\"type\":\"error\",\"id\":", id, ",\"name\":", quoted(name, 200L), ",\"value\":", quoted(value, VALUE_MAX),
            ",\"traceback\":", quoted(trace, VALUE_MAX), "}")
    }

    failed <- function(id, e) {
        name <- if (class(e)[1] == "simpleError") "Error" else class(e)[1]
        call <- if (is.null(conditionCall(e))) "" else paste0(" in ", paste(deparse(conditionCall(e)), collapse = " "))
        complain(id, name, conditionMessage(e), paste0("Error", call, ": ", conditionMessage(e)))
    }

    set_environment <- function(words) {
        before <- list()
        for (at in seq_len(max(0L, (length(words) - 13L) %/% 4L)) * 4L + 10L) {
            name <- unescape(words[at])
            if (!nzchar(name) || grepl("=", name, fixed = TRUE)) next
            before[[name]] <- Sys.getenv(name, unset = NA)
            do.call(Sys.setenv, stats::setNames(list(unescape(words[at + 2L])), name))
        }
        before
    }

    restore_environment <- function(before) {
        for (name in names(before)) {
            if (is.na(before[[name]])) Sys.unsetenv(name)
            else do.call(Sys.setenv, stats::setNames(list(before[[name]]), name))
        }
    }

    execute <- function(words) {
        id <- gsub("[^0-9]", "", words[7])
        count <<- count + 1L
        say("{\"type\":\"count\",\"id\":", id, ",\"value\":", count, "}")
        before <- set_environment(words)
        tryCatch(run(unescape(words[10]), id),
                 interrupt = function(i) complain(id, "Interrupted", "the cell was interrupted", "Interrupted"),
                 error = function(e) failed(id, e))
        try(send_plots(id), silent = TRUE)
        restore_environment(before)
        flush(stdout())
        say("{\"type\":\"end\",\"id\":", id, "}")
    }

    options(warn = 1, device = function(...) grDevices::png(plots, width = 640, height = 480, ...))
    say("{\"type\":\"ready\",\"language\":\"r\",\"version\":\"", R.version$major, ".", R.version$minor, "\",\"pid\":", Sys.getpid(), "}")
    # Between cells an interrupt is nothing.
    withCallingHandlers(
        while (!is.null(frame <- hear())) {
            words <- split(frame)
            if (words[4] == "exit") break
            if (words[4] == "execute") execute(words)
        },
        interrupt = function(i) tryInvokeRestart("resume"))
    quit("no", 0)
})
