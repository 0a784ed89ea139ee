package dev.kilohertz;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;
import java.util.regex.Pattern;

/** What a number of this program is: name, labels, unit. It checks at once what an agent would only count as a bad line. */
public final class Definition {
    private static final String PREFIX = "job.";
    private static final Pattern NAME = Pattern.compile("[a-z][a-z0-9_]*(\\.[a-z0-9_]+)*");
    private static final Pattern LABEL = Pattern.compile("[a-zA-Z][a-zA-Z0-9_]*|_[a-zA-Z0-9][a-zA-Z0-9_]*");
    private static final Set<String> LABELS_TAKEN = Set.of("part", "instance", "job");
    private static final Set<String> UNITS = Set.of("count", "bytes", "seconds", "percent", "pages", "packets", "hertz");
    private static final int NAME_BYTES_MAX = 128;
    private static final int HELP_BYTES_MAX = 200;
    private static final int INSTANCE_BYTES_MAX = 255;
    private static final int LABELS_MAX = 64;
    private static final int LABEL_BYTES_MAX = 4_096;
    private static final int PLACES_MAX = 9;
    /** Room for the value, and for {@code time=}. */
    private static final int VALUE_BYTES = 64;

    private final Publisher publisher;
    private final Kind kind;
    private final Set<String> labels = new HashSet<>();
    private SeriesName name;
    private String unit = "count";
    private String help = "";
    private int places;
    private boolean isFloat;

    Definition(Publisher publisher, String name, Kind kind) {
        Objects.requireNonNull(name, "name");
        String full = name.startsWith(PREFIX) ? name : PREFIX + name;
        if (full.length() > NAME_BYTES_MAX || !NAME.matcher(full).matches()) {
            throw new IllegalArgumentException("'" + name + "' is not a name: write lower-case words with dots between them, with at most "
                    + (NAME_BYTES_MAX - PREFIX.length()) + " letters together");
        }
        this.publisher = publisher;
        this.kind = kind;
        this.name = SeriesName.of(full);
    }

    /**
     * Which of several numbers of this name it is.
     *
     * @param text any characters but NUL, 255 bytes at most; all numbers of a name have an instance or a label, or none has
     * @return this
     */
    public Definition instance(String text) {
        Objects.requireNonNull(text, "text");
        check(text, INSTANCE_BYTES_MAX, "the name of an instance");
        name = new SeriesName(name.metric(), text, name.labels());
        return this;
    }

    /**
     * Tells it from other numbers of this name by a label, of which there may be 64, each given once.
     *
     * @param label letters, digits and {@code _}; not {@code part}, {@code instance} or {@code job}
     * @param value any characters but NUL; all labels together have 4,096 bytes at most
     * @return this
     */
    public Definition label(String label, String value) {
        Objects.requireNonNull(label, "label");
        Objects.requireNonNull(value, "value");
        if (!LABEL.matcher(label).matches() || LABELS_TAKEN.contains(label)) {
            throw new IllegalArgumentException("a label cannot be called '" + label + "': use letters, digits and _, and not part, instance or job");
        }
        if (!labels.add(label)) {
            throw new IllegalArgumentException("the label '" + label + "' is given twice: it has one value");
        }
        check(value, LABEL_BYTES_MAX, "the value of a label");
        name = name.label(label, value);
        int bytes = name.labels().entrySet().stream().mapToInt(entry -> bytes(entry.getKey()) + bytes(entry.getValue()) + 2).sum();
        if (name.labels().size() > LABELS_MAX || bytes > LABEL_BYTES_MAX) {
            throw new IllegalArgumentException("a number has at most " + LABELS_MAX + " labels, with " + LABEL_BYTES_MAX + " bytes together");
        }
        return this;
    }

    /**
     * Its unit.
     *
     * @param word {@code count} (the default), {@code bytes}, {@code seconds}, {@code percent}, {@code pages}, {@code packets} or
     *     {@code hertz}
     * @return this
     */
    public Definition unit(String word) {
        Objects.requireNonNull(word, "word");
        if (!UNITS.contains(word)) {
            throw new IllegalArgumentException("'" + word + "' is no unit of khz: write one of " + UNITS.stream().sorted().toList());
        }
        unit = word;
        return this;
    }

    /**
     * What it means, for people.
     *
     * @param text one line, 200 bytes at most
     * @return this
     */
    public Definition help(String text) {
        Objects.requireNonNull(text, "text");
        check(text, HELP_BYTES_MAX, "help");
        if (text.codePoints().anyMatch(Character::isISOControl)) {
            throw new IllegalArgumentException("help is one line without control characters");
        }
        help = text;
        return this;
    }

    /**
     * How many decimal places its exact values have.
     *
     * @param number 0 (the default) to 9; values are rounded to that number of places
     * @return this
     */
    public Definition places(int number) {
        if (number < 0 || number > PLACES_MAX) {
            throw new IllegalArgumentException("a number has 0 to " + PLACES_MAX + " decimal places, and not " + number);
        }
        places = number;
        return this;
    }

    /**
     * Makes its values doubles, for computed numbers. Counted ones are exact without this.
     *
     * @return this
     */
    public Definition floating() {
        isFloat = true;
        return this;
    }

    /**
     * Defines a number that the program sets.
     *
     * @return the number, without a value
     * @throws PublishException the node has no room for another number
     * @throws IllegalArgumentException it contradicts another number of this publisher: it is defined twice, its kind, unit, type or places are
     *     not those of its name, its name has an instance here and none there, or would be another's at Prometheus
     */
    public Published define() {
        return defined(null);
    }

    /**
     * Defines a number that is asked for each time when numbers are sent.
     *
     * @param source gives the present value; it is called by the thread that sends, so it must not wait
     * @return the number
     * @throws PublishException the node has no room for another number
     * @throws IllegalArgumentException as {@link #define()}
     */
    public Published define(LongSupplier source) {
        Objects.requireNonNull(source, "source");
        return defined(number -> number.set(source.getAsLong()));
    }

    /**
     * Defines a computed number that is asked for each time when numbers are sent. It is a double.
     *
     * @param source gives the present value; it is called by the thread that sends, so it must not wait
     * @return the number
     * @throws PublishException the node has no room for another number
     * @throws IllegalArgumentException as {@link #define()}
     */
    public Published define(DoubleSupplier source) {
        Objects.requireNonNull(source, "source");
        return floating().defined(number -> number.set(source.getAsDouble()));
    }

    private Published defined(Published.Source source) {
        if (isFloat && places != 0) {
            throw new IllegalArgumentException("a double keeps the digits that it has: leave out places()");
        }
        String spelled = name.toString();
        StringBuilder options = new StringBuilder(" unit=").append(unit).append(" kind=").append(kind == Kind.COUNTER ? "counter" : "gauge");
        options.append(isFloat ? " type=float" : " places=" + places);
        String end = help.isEmpty() ? "" : " help=" + help;
        if (bytes(spelled) + bytes(end) + options.length() + VALUE_BYTES > Publisher.DATAGRAM_BYTES) {
            throw new IllegalArgumentException("the names and labels of " + name.metric() + " do not fit into a datagram of "
                    + Publisher.DATAGRAM_BYTES + " bytes: shorten them");
        }
        ValueType type = isFloat ? ValueType.FLOAT : kind == Kind.COUNTER ? ValueType.UNSIGNED : ValueType.SIGNED;
        Published number = new Published(spelled, options.toString(), end, kind, type, places, source);
        publisher.add(number, name, new PublishedNames.Declared(kind, unit, type, isFloat ? 0 : places));
        return number;
    }

    private static void check(String text, int bytesMax, String what) {
        if (bytes(text) > bytesMax || text.indexOf(0) >= 0) {
            throw new IllegalArgumentException(what + " has at most " + bytesMax + " bytes, and no NUL");
        }
        if (text.codePoints().anyMatch(c -> c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE)) {
            throw new IllegalArgumentException(what + " has half of a character (a lone surrogate), which cannot be sent: take whole ones");
        }
    }

    private static int bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8).length;
    }
}
