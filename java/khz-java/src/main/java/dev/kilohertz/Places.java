package dev.kilohertz;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Where a running khz is found on this machine: the directories of its snapshots and sockets. It makes none of them. As for khz itself,
 * {@code KHZ_RUN_DIR}, {@code KHZ_RING_DIR} and {@code KHZ_NODE} of the environment come before the usual places; an empty one counts as
 * none. What stands in a khz.toml is not read.
 */
final class Places {
    /** The file with a node's latest values, in the directory of the node. */
    static final String SNAPSHOT = "snapshot";
    private static final Path SHARED = Path.of("/dev/shm/khz");
    private static final Path SYSTEM = Path.of("/run/khz");
    /** The bits of a directory's mode with which its group, or others, write to it. */
    private static final int OTHERS_WRITE = 0_022;

    /** How many snapshots a message names. */
    private static final int NAMED_MAX = 4;

    private static final String NODE = "KHZ_NODE";
    private static final Pattern NODE_NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]*");
    private static final Places HERE = new Places(System::getenv);

    private final UnaryOperator<String> environment;

    /** {@code environment}: the value of a variable, or null. */
    Places(UnaryOperator<String> environment) {
        this.environment = environment;
    }

    /** Those of this process. */
    static Places here() {
        return HERE;
    }

    /** The name of this machine, as agents take it for the name of their node. */
    static String host() {
        try {
            return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
        } catch (IOException e) {
            throw new UncheckedIOException("this machine does not tell its name: khz runs on Linux", e);
        }
    }

    /**
     * The snapshot of this machine's agent. A dead agent leaves its file: of several, the one whose agent lives is meant.
     *
     * @throws SnapshotException there is none, or it is not clear which one is meant
     */
    Path snapshot() {
        List<Path> directories = snapshotDirectories();
        Optional<String> told = node();
        List<Candidate> found = candidates(directories, told);
        List<Candidate> living = found.stream().filter(Candidate::isFresh).toList();
        List<Candidate> best = living.isEmpty() ? found : living;
        if (best.isEmpty()) {
            throw missing(directories, told);
        }
        if (best.size() == 1) {
            return best.getFirst().path();
        }
        // The one with the name that was told, or else that of the machine.
        String node = told.orElseGet(Places::host);
        return best.stream().map(Candidate::path).filter(path -> path.getParent().endsWith(node)).findFirst().orElseThrow(() -> ambiguous(best));
    }

    private List<Candidate> candidates(List<Path> directories, Optional<String> told) {
        long now = System.currentTimeMillis();
        return directories.stream().flatMap(directory -> snapshotsBelow(directory).stream())
                .filter(path -> told.isEmpty() || path.getParent().endsWith(told.get())).map(path -> Candidate.at(path, now)).toList();
    }

    private static SnapshotException missing(List<Path> directories, Optional<String> told) {
        String where = directories.stream().map(Path::toString).collect(Collectors.joining(" or "));
        String what = "there is no snapshot of " + told.map(name -> "the node " + name).orElse("any node") + " in " + where;
        List<Path> shut = directories.stream().filter(directory -> Files.isDirectory(directory) && !Files.isExecutable(directory)).toList();
        return new SnapshotException(shut.isEmpty() ? what + ": is 'khz agent' or 'khz' running on this machine, with these --ring-dir and --node?"
                : what + " that this user may see: it may not look into " + shut.getFirst() + ". Add it to the agent's group");
    }

    private static SnapshotException ambiguous(List<Candidate> several) {
        String all = several.stream().limit(NAMED_MAX).map(Candidate::toString).collect(Collectors.joining(", "));
        String more = several.size() > NAMED_MAX ? " and " + (several.size() - NAMED_MAX) + " more" : "";
        return new SnapshotException((several.getFirst().isFresh() ? "several agents live here" : "no agent lives here, and several have left files") + ", none with the name "
                + "of this machine: " + all + more + ". Say which one is meant with " + NODE + " in the environment, or open it by its path");
    }

    /** What else was found beside a snapshot whose agent does not live, in words; empty: nothing. */
    String othersThan(Path path) {
        List<Candidate> others = candidates(snapshotDirectories(), Optional.empty()).stream().filter(other -> !other.path().equals(path)).toList();
        String all = others.stream().limit(NAMED_MAX).map(Candidate::toString).collect(Collectors.joining(", "));
        return others.isEmpty() ? "" : " (beside it: " + all + (others.size() > NAMED_MAX ? ", ..." : "") + ")";
    }

    private Optional<String> node() {
        Optional<String> told = variable(NODE);
        told.filter(name -> !NODE_NAME.matcher(name).matches()).ifPresent(name -> {
            throw new SnapshotException("the environment variable " + NODE + " is '" + name
                    + "', which is no name of a node: it begins with a letter or digit; letters, digits, '-', '.' and '_' follow");
        });
        return told;
    }

    private List<Path> snapshotDirectories() {
        // With "none" the agent has no files; those of others are in the usual places.
        Optional<Path> told = variable("KHZ_RING_DIR").filter(text -> !text.equals("none")).map(Path::of);
        if (told.isPresent()) {
            return List.of(told.get());
        }
        List<Path> directories = new ArrayList<>();
        int user = user();
        if (user != 0) {
            absolute("XDG_RUNTIME_DIR").map(path -> path.resolve("khz")).ifPresent(directories::add);
            directories.add(Path.of(SHARED + "-" + user));
        }
        directories.add(SHARED);
        return directories;
    }

    private static List<Path> snapshotsBelow(Path directory) {
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> nodes = Files.newDirectoryStream(directory)) {
            for (Path node : nodes) {
                if (Files.exists(node.resolve(SNAPSHOT))) {
                    found.add(node.resolve(SNAPSHOT));
                }
            }
        } catch (IOException e) {
            // No agent has made this directory, or it is another user's.
            return List.of();
        }
        found.sort(null);
        return found;
    }

    /** Directories that may hold local sockets, the user's own first. */
    List<Path> runDirectories() {
        Optional<Path> told = variable("KHZ_RUN_DIR").map(Path::of);
        if (told.isPresent()) {
            return List.of(told.get());
        }
        List<Path> directories = new ArrayList<>();
        // systemd sets it for a unit with RuntimeDirectory=.
        absolute("RUNTIME_DIRECTORY").ifPresent(directories::add);
        int user = user();
        if (user != 0) {
            Path own = absolute("XDG_RUNTIME_DIR").filter(path -> isSafe(path, user)).map(path -> path.resolve("khz"))
                    // Without a login session, as under su or in a container.
                    .orElse(Path.of(temporary()).resolve("khz-" + user));
            // In a directory that all users can write to, another user may have made this one.
            if (!Files.exists(own) || isSafe(own, user)) {
                directories.add(own);
            }
        }
        if (!directories.contains(SYSTEM)) {
            directories.add(SYSTEM);
        }
        return directories;
    }

    /** True for a directory in which only its owner can make files, where the owner is this user or root. */
    private static boolean isSafe(Path directory, int user) {
        try {
            int owner = (int) Files.getAttribute(directory, "unix:uid");
            int mode = (int) Files.getAttribute(directory, "unix:mode");
            return (owner == user || owner == 0) && Files.isDirectory(directory) && (mode & OTHERS_WRITE) == 0;
        } catch (IOException e) {
            return false;
        }
    }

    /** As other programs see it; Java's own property may have been set to something else. */
    private String temporary() {
        return variable("TMPDIR").orElse("/tmp");
    }

    private static int user() {
        try {
            return (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        } catch (IOException e) {
            throw new UncheckedIOException("there is no /proc: khz runs on Linux", e);
        }
    }

    private Optional<Path> absolute(String variable) {
        return variable(variable).map(Path::of).filter(Path::isAbsolute);
    }

    private Optional<String> variable(String name) {
        return Optional.ofNullable(environment.apply(name)).filter(text -> !text.isEmpty());
    }
}
