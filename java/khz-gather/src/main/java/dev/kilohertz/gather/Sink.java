package dev.kilohertz.gather;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Takes what a full parser finds: for each number its position in the text and the slot it fills. It turns the digits into readings,
 * remembers the layout, and notes faults by field and line.
 */
final class Sink {
    /** The sink keeps at most this many faults of one text in words. */
    static final int FAULTS_MAX = 8;

    /** Most numbers that a file's parser may put aside. A header of net/dev with more columns is not one. */
    static final int SCRATCH = 32;

    private final KernelFile file;
    private final Slots slots;
    private final Readings readings;
    private final Layout layout;
    private final Digits digits = new Digits();
    private final Words words = new Words();
    private final List<FaultNote> faults = new ArrayList<>();
    private final int[] scratch = new int[SCRATCH];
    /** For each slot, the number of the parse that last filled it. */
    private int[] seen = new int[0];
    private int parse;

    private byte[] text;
    private int end;
    private int lineStart;
    private int lineEnd;
    private int line;
    private boolean isFaulty;
    /** A fault belonged to no slot: it may concern any field that seems missing. */
    private boolean isUnattributed;

    Sink(KernelFile file, Slots slots, Readings readings, Layout layout) {
        this.file = file;
        this.slots = slots;
        this.readings = readings;
        this.layout = layout;
    }

    /** Takes a whole text. */
    void take(byte[] text, int end) {
        this.text = text;
        this.end = end;
        parse++;
        line = 0;
        lineEnd = Room.LEAD - 1;
        isFaulty = false;
        isUnattributed = false;
        faults.clear();
        layout.clear();
        slots.rewind();
        makeRoom();
        file.parse(this);
        finish();
    }

    /** The faults of the text. */
    List<FaultNote> faults() {
        return faults;
    }

    /** The text, with the lead of a {@link Room}. */
    byte[] text() {
        return text;
    }

    /** Goes to the next whole line. A last line without a newline was cut off: slots that it may have filled are failed. */
    boolean nextLine() {
        lineStart = lineEnd + 1;
        if (lineStart >= end) {
            if (end == Room.LEAD) {
                line++;
                note("the text", "empty");
            }
            return false;
        }
        line++;
        lineEnd = Words.indexOf(text, lineStart, end, '\n');
        if (lineEnd < 0) {
            note("the text", "ends in the middle of a line");
            lineEnd = end;
            return false;
        }
        return true;
    }

    int lineStart() {
        return lineStart;
    }

    int lineEnd() {
        return lineEnd;
    }

    /** A stretch as it is shown in a fault. */
    String string(int from, int to) {
        return new String(text, from, to - from, StandardCharsets.UTF_8);
    }

    /** The words of a stretch; the walk before ends. */
    Words words(int from, int to) {
        return words.over(text, from, to);
    }

    /** Room for numbers that the file's parser puts aside during one text. */
    int[] scratch() {
        return scratch;
    }

    /** The stretch holds the number of this metric without instances. */
    void scalar(int index, int from, int to) {
        number(index, file.scalars().get(index), from, to);
    }

    /** Begins an instance. {@link Slots#NONE}: the text contains it twice, or no slots are left; the caller skips its numbers. */
    int instance(int from, int to) {
        int base = slots.instance(text, from, to);
        if (base == Slots.NONE) {
            // Not a note: the line is this instance's, so those that have slots and are not here are gone.
            remember(string(from, to), "no slot left for this instance");
            return Slots.NONE;
        }
        makeRoom();
        for (int slot = base; slot < base + slots.width(); slot++) {
            if (seen[slot] == parse) {
                failTwice(base);
                return Slots.NONE;
            }
        }
        return base;
    }

    private void failTwice(int base) {
        for (int slot = base; slot < base + slots.width(); slot++) {
            fail(slot, State.MALFORMED, "the instance stands in the text twice");
        }
    }

    /** The stretch holds the number of an instance's metric; beyond the last metric, it is a word that nobody wants. */
    void field(int base, int index, int from, int to) {
        if (index < file.grouped().size()) {
            number(base + index, file.grouped().get(index), from, to);
        } else {
            int start = spanStart(from);
            layout.add(start, to, Layout.ONE_WORD, isPadded(start, from), 0, 0);
        }
    }

    /** An instance's metric is wrong. */
    void failField(int base, int index, String problem) {
        fail(base + index, State.MALFORMED, problem);
    }

    /** A metric without instances is wrong. */
    void failScalar(int index, String problem) {
        fail(index, State.MALFORMED, problem);
    }

    /** Nobody wants this stretch: it may change freely, except a blank at its start, which ends the word before it. */
    void ignore(int from, int to) {
        boolean isBlank = from < end && (text[from] == ' ' || text[from] == '\t');
        layout.ignore(Math.min(isBlank ? from + 1 : from, to), to);
    }

    /** A fault that belongs to no slot. Slots that this text does not fill are then failed, because the fault may be theirs. */
    void note(String field, String problem) {
        isUnattributed = true;
        remember(field, problem);
    }

    private void remember(String field, String problem) {
        isFaulty = true;
        if (faults.size() < FAULTS_MAX) {
            faults.add(new FaultNote(line, field, problem));
        }
    }

    private void fail(int slot, State state, String problem) {
        isFaulty = true;
        if (faults.size() < FAULTS_MAX) {
            remember(slots.name(slot), problem);
        }
        seen[slot] = parse;
        readings.set(slot, state, 0);
    }

    private void number(int slot, Entry entry, int from, int to) {
        if (seen[slot] == parse) {
            fail(slot, State.MALFORMED, "stands in the text twice");
            return;
        }
        int start = spanStart(from);
        State state = digits.parse(text, start, to, entry.textPlaces());
        long value = digits.value() << entry.shift();
        if (state == State.PRESENT && value >>> entry.shift() != digits.value()) {
            state = State.OUT_OF_RANGE;
        }
        if (state != State.PRESENT) {
            fail(slot, state, state == State.OUT_OF_RANGE ? "number beyond 64 bits" : "not a number");
            return;
        }
        seen[slot] = parse;
        readings.set(slot, State.PRESENT, value);
        layout.add(start, to, slot, isPadded(start, from), entry.textPlaces(), entry.shift());
    }

    /**
     * Where a number's span starts. Blanks before a number belong to its span, so that a right-aligned number may grow into them. One
     * blank stays outside as the separator, unless a colon or the start of the line separates anyway.
     */
    private int spanStart(int number) {
        int start = number;
        while (start > Room.LEAD && text[start - 1] == ' ') {
            start--;
        }
        return start < number && !isSeparated(start) ? start + 1 : start;
    }

    /** After another mark than a colon ({@code /}) a blank would end the word: none may come there. */
    private boolean isPadded(int start, int number) {
        return start < number || isSeparated(start) || text[start - 1] == ' ';
    }

    private boolean isSeparated(int start) {
        return start == Room.LEAD || text[start - 1] == ':' || text[start - 1] == '\n';
    }

    private void makeRoom() {
        if (seen.length < slots.count()) {
            seen = Arrays.copyOf(seen, Math.max(slots.count(), 2 * seen.length));
        }
        readings.grow(slots.count());
    }

    /** Ends the text: slots that were not filled become absent, or failed if a fault belongs to no slot. */
    private void finish() {
        int scalars = file.scalars().size();
        if (scalars > 0 && !isFaulty && !isAnySeen()) {
            note("the text", "nothing in it is known");
        }
        State noField = isUnattributed ? State.MALFORMED : State.NO_FIELD;
        State gone = isUnattributed ? State.MALFORMED : State.INSTANCE_GONE;
        // One that is there and got no slots is not gone.
        readings.setUnknown(slots.isFull() ? State.UNREADABLE : gone);
        setMissing(0, scalars, noField);
        for (int instance = 0; instance < slots.instances(); instance++) {
            int base = slots.base(instance);
            int next = base + slots.width();
            setMissing(base, next, isHere(base, next) ? noField : gone);
        }
        if (!isFaulty) {
            layout.complete(end);
        }
    }

    private boolean isAnySeen() {
        return isHere(0, slots.count());
    }

    private boolean isHere(int from, int to) {
        for (int slot = from; slot < to; slot++) {
            if (seen[slot] == parse) {
                return true;
            }
        }
        return false;
    }

    private void setMissing(int from, int to, State state) {
        for (int slot = from; slot < to; slot++) {
            if (seen[slot] != parse) {
                readings.set(slot, state, 0);
            }
        }
    }

    /** Forgets which slots were filled: they have other meanings now. */
    void forget() {
        seen = new int[0];
    }
}
