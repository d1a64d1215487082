# Runs cells of bash for brig: requests come over descriptor 3, results go back over 4 (wire/interp.h).
#
# Two shells. This one speaks with the front and never runs a cell. The other one runs the cells, one after the other,
# so that variables, functions and the folder stay. It is an interactive shell without a terminal: only such a one gives
# up a command on SIGINT, or on an unset variable, and stays. Its input is what this shell says: one line that runs a
# cell and one that reports its status. A cell's own input is empty, its output goes to descriptors 1 and 2.
#
# SIGINT may come to this process or to its group. Between cells the other shell ignores it: a line that it is reading
# would be lost. Right after a cell the report may be lost; it is asked for again.
#
# bash 4.2 or newer, and nothing else.
locale=${LC_ALL-} has_locale=${LC_ALL+x}
LC_ALL=C
IFS=
set -f
shopt -u patsub_replacement 2>/dev/null

# ---- frames ----

say() { # TEXT
    local n=${#1} header
    printf -v header '\\x%02x' $((n & 255)) $((n >> 8 & 255)) $((n >> 16 & 255)) $((n >> 24 & 255))
    printf "$header%s" "$1" >&4
}

hear() { # sets `frame`; fails at the end
    local i byte code length=0
    for i in 0 8 16 24; do
        read -r -d '' -n 1 -u 3 byte || return 1 # a NUL reads as nothing
        code=0
        [[ -z $byte ]] || printf -v code '%d' "'$byte"
        length=$((length | (code & 255) << i))
    done
    read -r -N "$length" -u 3 frame
}

# ---- JSON as the front writes it: the members in their order, no spaces ----

# Cuts the frame at its quotes into `words`. Control characters do not occur in JSON: two of them stand for the escaped
# backslash and the escaped quote meanwhile.
split() {
    local IFS='"' text=${frame//\\\\/$'\1'}
    text=${text//\\\"/$'\2'}
    words=($text)
}

# printf's %b knows all escapes but \u, which it would write in the shell's own character set.
unescape() { # TEXT, sets `text`
    local code first bytes
    text=${1//\\\//\/}
    while [[ $text =~ \\u([0-9a-fA-F]{4})(\\u([dD][c-fC-F][0-9a-fA-F]{2}))? ]]; do
        first=\\u${BASH_REMATCH[1]}
        code=$((16#${BASH_REMATCH[1]}))
        if ((code >= 0xd800 && code < 0xdc00)) && [[ -n ${BASH_REMATCH[2]} ]]; then
            first+=${BASH_REMATCH[2]}
            code=$((0x10000 + ((code & 0x3ff) << 10) + (16#${BASH_REMATCH[3]} & 0x3ff)))
        fi
        utf8 "$code"
        text=${text//"$first"/$bytes}
    done
    text=${text//$'\1'/'\\'}
    text=${text//$'\2'/'"'}
    printf -v text '%b' "$text"
}

utf8() { # CODE, sets `bytes` to escapes for %b; NUL, which no shell can hold, to nothing
    local c=$1
    bytes=
    if ((c >= 0x10000)); then
        printf -v bytes '\\x%02x' $((c >> 18 | 0xf0)) $((c >> 12 & 63 | 128)) $((c >> 6 & 63 | 128)) $((c & 63 | 128))
    elif ((c >= 0x800)); then
        printf -v bytes '\\x%02x' $((c >> 12 | 0xe0)) $((c >> 6 & 63 | 128)) $((c & 63 | 128))
    elif ((c >= 0x80)); then
        printf -v bytes '\\x%02x' $((c >> 6 | 0xc0)) $((c & 63 | 128))
    elif ((c > 0)); then
        printf -v bytes '\\x%02x' "$c"
    fi
}

# ---- the shell that runs the cells ----
#
# Its descriptors 251 and 252 are stdout and stderr of the cells, 253 leads to this shell. While a cell runs they are
# closed: no program that it starts has them. Outside of cells its stderr leads nowhere; there go prompts.
#
# __brig_begin takes the code, then names and values of the variables of this one cell; its own status, which the cell
# sees as $?, is that of the cell before. With `set -e` it must be 0.

read -r -d '' prelude <<'END'
set +o history +H; unset HISTFILE PROMPT_COMMAND; PS1= PS2= __brig_code= __brig_last=0 __brig_told= __brig_restore=()
__brig_begin() {
    __brig_code=$1 __brig_told=
    shift
    while [ $# -gt 1 ]; do
        if [ -n "${!1+x}" ]; then
            __brig_restore+=("builtin unset $1" "$(builtin declare -p "$1")")
        else
            __brig_restore+=("builtin unset $1")
        fi
        builtin export "$1=$2"
        shift 2
    done
    builtin trap - INT
    case $- in *e*) return 0 ;; esac
    return "$__brig_last"
}
__brig_said() {
    builtin set -- "$1" "$?"
    builtin trap '' INT
    [ "$1" = "$__brig_told" ] || __brig_last=$2 # who is asked again does not say how it went itself
    __brig_told=$1
    local __brig_word
    for __brig_word in ${__brig_restore[@]+"${__brig_restore[@]}"}; do
        builtin eval "${__brig_word/#declare /declare -g }"
    done
    __brig_restore=()
    builtin printf '%s %s\n' "$1" "$__brig_last" >&253
}
exit() { builtin exit "$@" 2>/dev/null; } # an interactive shell says "exit" when it does
builtin trap '' INT
builtin printf 'pid %s\n' "$$" >&253
END

start_shell() {
    exec 251>&1 252>&2
    coproc SHELL_IO {
        trap : INT
        if [[ -n $has_locale ]]; then LC_ALL=$locale; else unset LC_ALL; fi
        "$BASH" --noprofile --norc --noediting -i 253>&1 >/dev/null 2>/dev/null 3<&- 4>&-
        printf 'exit %d\n' $?
    }
    exec 0</dev/null 1>&2 251>&- 252>&- # what this shell itself has to say, if anything, is an error
    # Copies: the shell closes its own when the process has ended, also if its last words were not read yet.
    exec {from}<&"${SHELL_IO[0]}" {to}>&"${SHELL_IO[1]}"
    exec {SHELL_IO[0]}<&- {SHELL_IO[1]}>&-
    printf '%s\n' "$prelude" >&"$to"
    read -r shell_pid <&"$from"
    shell_pid=${shell_pid#pid }
}

forward() {
    trap '' INT
    kill -INT 0
    trap 'interrupts=$((interrupts + 1))' INT
}

# Sets `status`, and `ended` if there is no shell any more. An interrupt ends the reading: first the cell gets a moment to
# end of itself, in case that the signal came to the whole group; then it gets the signal from here. Then the report is
# asked for again, ever more rarely, and with the signal once more: a shell takes no notice of one that comes just as a
# command ends. A second is the longest wait for a signal that came just before the reading began.
wait_for_report() {
    set -o posix # so that a signal ends a read
    read_reports
    set +o posix
}

read_reports() {
    local word seen=0 delay=1 left=0 got
    status=1 ended=
    while :; do
        IFS=' ' read -r -t "$delay" -u "$from" word status
        got=$?
        if ((got == 0)); then
            [[ $word == exit ]] && ended=1
            [[ $status =~ ^[0-9]{1,3}$ && ($word == exit || $word == "$id") ]] && return
        elif ((got <= 128)); then
            ended=1 status=1
            return
        elif ((interrupts > seen)); then
            seen=$interrupts delay=0.05 left=12
        elif ((left)); then
            ((left == 12 || left < 9)) && forward
            printf '__brig_said %s\n' "$id" >&"$to" 2>/dev/null
            printf -v delay '%d.%d' $((2 ** (12 - left) / 10)) $((2 ** (12 - left) % 10))
            left=$((left - 1))
        else
            delay=1
        fi
    done
}

# ---- one cell ----

# The variables of this cell as words of a command, in `quoted`.
quote_environment() {
    local i name
    quoted=
    for ((i = 13; i + 2 < ${#words[@]}; i += 4)); do
        unescape "${words[i]}"
        name=$text
        [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
        unescape "${words[i + 2]}"
        printf -v text ' %s %q' "$name" "$text"
        quoted+=$text
    done
}

execute() {
    local number=${words[6]//[^0-9]/} redirect='</dev/null >&251 2>&252 251>&- 252>&- 253>&-'
    count=$((count + 1)) interrupts=0
    say '{"type":"count","id":'"$number"',"value":'"$count}"
    quote_environment
    unescape "${words[9]}"
    id=$number
    printf '__brig_begin %q%s; \\builtin eval "$__brig_code" %s\n__brig_said %s\n' "$text" "$quoted" "$redirect" "$id" \
        >&"$to" 2>/dev/null # the first line may have ended the shell
    wait_for_report
    id=
    # 127: the signal tore the line that asks for the report, and the rest of it is no command.
    if (((status == 130 || status == 127) && interrupts)); then
        complain "$number" Interrupted 130 'the cell was interrupted'
    elif ((status)); then
        complain "$number" ExitStatus "$status" "exit status $status"
    fi
    say '{"type":"end","id":'"$number}"
    [[ -z $ended ]] || exit 0
}

complain() { # ID NAME VALUE TRACEBACK, of which none needs escapes
    say '{"type":"error","id":'"$1"',"name":"'"$2"'","value":"'"$3"'","traceback":"'"$4"'"}'
}

id= count=0 interrupts=0
trap 'interrupts=$((interrupts + 1))' INT
trap '' PIPE
start_shell
say '{"type":"ready","language":"bash","version":"'"${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}"'","pid":'"$$}"
while hear; do
    split
    case ${words[3]} in
    execute) execute ;;
    exit) break ;;
    esac
done
# The jobs of the shell get a SIGHUP from it.
kill -HUP "$shell_pid" 2>/dev/null
exit 0
