/* Runs cells of Java for brig: requests come over descriptor 3, results go back over 4 (wire/interp.h).
 *
 * One process is one context: a JShell that runs its snippets in this process, so that what they print goes to descriptors
 * 1 and 2 without our help. Compiled each time that it is started; needs the compiler, and so a JDK. Shares its process
 * with the code that it runs and protects nobody. Java 17 or newer, nothing else. */
import java.io.*;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.*;
import jdk.jshell.*;
import jdk.jshell.execution.LocalExecutionControlProvider;

final class Cells {
    private static final int FRAME_MAX = 16 << 20, TEXT_MAX = 1 << 20, VALUE_MAX = 32 << 10, TRACE_MAX = 256 << 10;
    private static final String[] IMPORTS = {"java.io", "java.math", "java.net", "java.nio.file", "java.util",
        "java.util.concurrent", "java.util.function", "java.util.prefs", "java.util.regex", "java.util.stream"};

    private final DataInputStream requests;
    private final OutputStream answers;
    private final JShell shell;
    private volatile long count;
    private volatile boolean running, interrupted;

    private Cells() throws Exception {
        requests = new DataInputStream(new BufferedInputStream(new FileInputStream(descriptor(3))));
        answers = new FileOutputStream(descriptor(4));
        shell = JShell.builder().executionEngine(new LocalExecutionControlProvider(), Map.of()).build();
        for (String name : IMPORTS) shell.eval("import " + name + ".*;");
    }

    /* There is no other way to a descriptor that was inherited: to open it anew needs its owner's rights. */
    private static FileDescriptor descriptor(int fd) throws Exception {
        Constructor<FileDescriptor> make = FileDescriptor.class.getDeclaredConstructor(int.class);
        make.setAccessible(true);
        return make.newInstance(fd);
    }

    // ---- frames ----

    private void say(String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        byte[] frame = new byte[body.length + 4];
        for (int i = 0; i < 4; i++) frame[i] = (byte) (body.length >> 8 * i);
        System.arraycopy(body, 0, frame, 4, body.length);
        answers.write(frame);
    }

    private Map<?, ?> hear() throws IOException {
        int length;
        try {
            length = Integer.reverseBytes(requests.readInt());
        } catch (EOFException end) {
            return null;
        }
        if (length <= 0 || length > FRAME_MAX) throw new IOException("a frame of " + length + " bytes");
        byte[] body = new byte[length];
        requests.readFully(body);
        return (Map<?, ?>) new Json(new String(body, StandardCharsets.UTF_8)).value();
    }

    /* Strings, whole numbers and objects of them: all that the front says. */
    private static final class Json {
        private final String text;
        private int at;

        Json(String text) { this.text = text; }

        Object value() {
            char c = text.charAt(at);
            return c == '"' ? string() : c == '{' ? object() : number();
        }

        private Map<String, Object> object() {
            Map<String, Object> made = new LinkedHashMap<>();
            at++;
            while (text.charAt(at) != '}') {
                if (text.charAt(at) == ',') at++;
                String name = string();
                at++; // the colon
                made.put(name, value());
            }
            at++;
            return made;
        }

        private Long number() {
            int start = at;
            while (at < text.length() && "-0123456789".indexOf(text.charAt(at)) >= 0) at++;
            return Long.valueOf(text.substring(start, at));
        }

        private String string() {
            StringBuilder made = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) {
                char c = text.charAt(at);
                made.append(c == '\\' ? escaped() : c);
            }
            at++;
            return made.toString();
        }

        private char escaped() {
            char c = text.charAt(++at);
            int plain = "nrtbf".indexOf(c);
            if (plain >= 0) return "\n\r\t\b\f".charAt(plain);
            if (c != 'u') return c;
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
        }
    }

    /* As the front takes it: no NUL, no halves of characters, not too long. */
    private static String quoted(String text, int most) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8); // a half becomes "?"
        if (bytes.length > most) {
            int end = most - 64;
            while ((bytes[end] & 0xc0) == 0x80) end--;
            text = new String(bytes, 0, end, StandardCharsets.UTF_8) + "\n… (" + bytes.length + " bytes in all)";
        }
        StringBuilder made = new StringBuilder("\"");
        text.codePoints().forEach(c -> {
            if (c == 0 || c >= 0xd800 && c < 0xe000) made.append('\ufffd');
            else if (c == '"' || c == '\\') made.append('\\').append((char) c);
            else if (c < 0x20) made.append(String.format("\\u%04x", c));
            else made.appendCodePoint(c);
        });
        return made.append('"').toString();
    }

    // ---- cells ----

    private record Trouble(String name, String value, String trace) {}

    private Trouble trouble(SnippetEvent event) {
        if (event.exception() instanceof EvalException e) {
            String name = e.getExceptionClassName();
            StringWriter trace = new StringWriter();
            trace.write(name + (e.getMessage() == null ? "" : ": " + e.getMessage()) + "\n");
            for (StackTraceElement frame : e.getStackTrace())
                if (!frame.getClassName().startsWith("jdk.jshell.") && !frame.getClassName().startsWith("REPL.$JShell$DOIT"))
                    trace.write("\tat " + frame + "\n");
            return new Trouble(name.substring(name.lastIndexOf('.') + 1), String.valueOf(e.getMessage()), trace.toString());
        }
        if (event.exception() instanceof UnresolvedReferenceException e)
            return new Trouble("UnresolvedReference", explain(e.getSnippet()), explain(e.getSnippet()));
        if (event.status() == Snippet.Status.REJECTED)
            return new Trouble("CompilationError", explain(event.snippet()), explain(event.snippet()));
        return null;
    }

    private String explain(Snippet snippet) {
        StringJoiner lines = new StringJoiner("\n");
        shell.diagnostics(snippet).forEach(d -> lines.add(d.getMessage(Locale.ROOT) + "\n    "
            + snippet.source().substring((int) Math.max(0, d.getStartPosition()),
                                         (int) Math.min(snippet.source().length(), Math.max(d.getStartPosition(), d.getEndPosition())))));
        if (snippet instanceof DeclarationSnippet declared)
            shell.unresolvedDependencies(declared).forEach(name -> lines.add("not defined yet: " + name));
        return lines.length() == 0 ? "it cannot be run: " + snippet.source() : lines.toString();
    }

    /* The value of the last expression as text, or null; what went wrong, in `into`. */
    private String run(String code, Trouble[] into) {
        String value = null, rest = code;
        while (!rest.isBlank() && into[0] == null && !interrupted) {
            SourceCodeAnalysis.CompletionInfo next = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            String source = next.source() == null ? rest : next.source();
            rest = next.source() == null ? "" : next.remaining();
            value = null;
            for (SnippetEvent event : shell.eval(source)) {
                if (event.causeSnippet() != null) continue;
                into[0] = trouble(event);
                boolean shows = event.snippet().kind() == Snippet.Kind.EXPRESSION
                    || event.snippet().subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
                value = shows && event.exception() == null ? event.value() : null;
            }
        }
        return value == null || value.isEmpty() || value.equals("null") ? null : value;
    }

    private static String unquoted(String value) {
        boolean is = value.length() > 1 && value.startsWith("\"") && value.endsWith("\"");
        return is ? value.substring(1, value.length() - 1) : value;
    }

    private void execute(Map<?, ?> request) throws IOException {
        long id = (Long) request.get("id");
        Trouble[] trouble = {null};
        say("{\"type\":\"count\",\"id\":" + id + ",\"value\":" + ++count + "}");
        Map<String, String> before = new HashMap<>();
        if (request.get("env") instanceof Map<?, ?> env)
            env.forEach((name, value) -> {
                if (!((String) name).isEmpty()) before.put((String) name, System.setProperty((String) name, (String) value));
            });
        interrupted = false;
        running = true;
        String value = run((String) request.get("code"), trouble);
        running = false;
        before.forEach((name, old) -> {
            if (old == null) System.clearProperty(name);
            else System.setProperty(name, old);
        });
        System.out.flush();
        System.err.flush();
        if (interrupted) trouble[0] = new Trouble("Interrupted", "the cell was interrupted", "Interrupted");
        if (trouble[0] != null)
            say("{\"type\":\"error\",\"id\":" + id + ",\"name\":" + quoted(trouble[0].name, 200) + ",\"value\":"
                + quoted(trouble[0].value, VALUE_MAX) + ",\"traceback\":" + quoted(trouble[0].trace, TRACE_MAX) + "}");
        else if (value != null)
            say("{\"type\":\"result\",\"id\":" + id + ",\"main\":true,\"data\":{\"text\":" + quoted(unquoted(value), TEXT_MAX) + "}}");
        say("{\"type\":\"end\",\"id\":" + id + "}");
    }

    /* Between two snippets of a cell there is nothing to stop yet: again, until the cell has ended. */
    private void interrupt() {
        long cell = count;
        if (!running) return;
        interrupted = true;
        while (running && count == cell) {
            shell.stop();
            try {
                Thread.sleep(20);
            } catch (InterruptedException ignored) {
                return;
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Cells cells = new Cells();
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> cells.interrupt());
        cells.say("{\"type\":\"ready\",\"language\":\"java\",\"version\":" + quoted(System.getProperty("java.version"), 60)
            + ",\"pid\":" + ProcessHandle.current().pid() + "}");
        for (Map<?, ?> request; (request = cells.hear()) != null && !"exit".equals(request.get("op"));)
            if ("execute".equals(request.get("op"))) cells.execute(request);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
