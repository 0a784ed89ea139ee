package dev.kilohertz.gather;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Takes turns with programs in other languages: reads {@code WAY MILLISECONDS} from standard input and prints
 * {@code CALLS WALL_NS CPU_NS} until it ends. The CPU time is that of the thread that calls: the JIT compiler and the garbage collector
 * have their own threads. The argument is a folder of captured texts, {@code 0.frames} to {@code 4.frames}.
 *
 * <pre>
 *   load N, parse N, total N    of the N-th of the five files
 *   all                         gather and parse, all five files
 *   take                        the same with clocks, a lock and a copy of every number for a reader
 *   channel                     the same through FileChannel
 *   oshi fresh, oshi usual      some of these values through OSHI; only one of both in a process
 *   ladder STEP                 a step of the ladder
 * </pre>
 */
public final class Turns {
    private static final int BETWEEN_CLOCKS = 16;

    /** One call of a way. */
    @FunctionalInterface
    interface Way {
        long call() throws IOException;
    }

    private final Map<String, Way> ways = new HashMap<>();
    private final Path folder;
    private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    private long kept;

    private Turns(Path folder) {
        this.folder = folder;
    }

    /**
     * Serves standard input.
     *
     * @param arguments the folder of captured texts
     */
    public static void main(String[] arguments) throws IOException {
        Turns turns = new Turns(Path.of(arguments[0]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int blank = line.lastIndexOf(' ');
            System.out.println(turns.batch(line.substring(0, blank), Long.parseLong(line.substring(blank + 1))));
        }
    }

    private String batch(String name, long millis) throws IOException {
        Way way = ways.get(name);
        if (way == null) {
            way = make(name);
            ways.put(name, way);
        }
        long span = TimeUnit.MILLISECONDS.toNanos(millis);
        long calls = 0;
        long cpu = threads.getCurrentThreadCpuTime();
        long start = System.nanoTime();
        long wall;
        do {
            kept += some(way);
            calls += BETWEEN_CLOCKS;
            wall = System.nanoTime() - start;
        } while (wall < span);
        return calls + " " + wall + " " + (threads.getCurrentThreadCpuTime() - cpu);
    }

    private static long some(Way way) throws IOException {
        long sum = 0;
        for (int call = 0; call < BETWEEN_CLOCKS; call++) {
            sum += way.call();
        }
        return sum;
    }

    private Way make(String name) throws IOException {
        String[] words = name.split(" ");
        return switch (words[0]) {
            case "load" -> load(Integer.parseInt(words[1]));
            case "parse" -> parse(Integer.parseInt(words[1]));
            case "total" -> total(Integer.parseInt(words[1]));
            case "all" -> all();
            case "take" -> take(true);
            case "channel" -> take(false);
            case "oshi" -> new OshiNumbers(words[1].equals("fresh"))::read;
            case "ladder" -> ladder(words[1]);
            default -> throw new IllegalArgumentException("no way called '" + name + "'");
        };
    }

    private static KernelText text(int number) {
        KernelFile file = Catalogue.FILES.get(number);
        return new KernelText(Kernels.fastest(), "/proc/" + file.name(), file.longestRecord());
    }

    private static Way load(int number) {
        Room room = new Room();
        KernelText text = text(number);
        return () -> text.read(room);
    }

    private Way parse(int number) throws IOException {
        Frames frames = Frames.read(folder.resolve(number + ".frames"));
        Room room = new Room();
        Parser parser = new Parser(Catalogue.FILES.get(number));
        return () -> {
            byte[] text = frames.next();
            return parser.advance(room, room.fill(text, 0, text.length)) ? 1 : 0;
        };
    }

    private static Way total(int number) {
        Room room = new Room();
        Source source = new Source(Catalogue.FILES.get(number), text(number), 0);
        return () -> {
            source.gather(room, 0, 0);
            return source.readings().changes();
        };
    }

    static Way all() {
        Room room = new Room();
        Source[] sources = new Source[Catalogue.FILES.size()];
        for (int number = 0; number < sources.length; number++) {
            sources[number] = new Source(Catalogue.FILES.get(number), text(number), 0);
        }
        return () -> {
            for (Source source : sources) {
                source.gather(room, 0, 0);
            }
            return sources[0].readings().changes();
        };
    }

    static Way take(boolean nativeAccess) {
        Gatherer gatherer = Gatherer.with().window(Duration.ZERO).nativeAccess(nativeAccess).open();
        Sample sample = gatherer.sample();
        gatherer.series().forEach(series -> sample.find(series.toString()));
        return () -> sample.take() ? 1 : 0;
    }

    private static Way ladder(String step) throws IOException {
        LadderWays ways = new LadderWays();
        return switch (step) {
            case "char" -> () -> ways.character().size();
            case "stream" -> () -> ways.stream().size();
            case "block" -> () -> ways.block().size();
            case "plain" -> ways::plain;
            case "random" -> ways::keptRandom;
            case "channel" -> ways::keptChannel;
            case "pread" -> ways::keptForeign;
            case "ours" -> ways::ours;
            default -> throw new IllegalArgumentException("no step called '" + step + "'");
        };
    }
}
