package dev.kilohertz.gather;

import java.util.List;

/**
 * The differential parser of one kernel file: it takes each new text and keeps the readings. Equal bytes cost a comparison. Changed
 * numbers are parsed at their known positions. When the layout moves, the whole text is parsed by field name.
 */
final class Parser {
    private final Slots slots;
    private final Readings readings = new Readings();
    private final Layout layout = new Layout();
    private final Sink sink;
    private final InPlace inPlace;
    /** The last text, with the lead and the end of a {@link Room}. Its gaps may be from an older text; they are never compared. */
    private byte[] before = new byte[0];

    /** A parser before its first text: nothing is gathered yet. */
    Parser(KernelFile file) {
        slots = new Slots(file);
        readings.grow(slots.count());
        sink = new Sink(file, slots, readings, layout);
        inPlace = new InPlace(layout, readings);
    }

    /** Takes the text in the room, which ends at {@code end}. True: only changed numbers were parsed; false: all of it. */
    boolean advance(Room room, int end) {
        int last = room.seal(end);
        byte[] text = room.bytes();
        if (layout.fits(end) && inPlace.parse(text, before)) {
            return true;
        }
        if (before.length < last) {
            before = new byte[last];
        }
        System.arraycopy(text, 0, before, 0, last);
        sink.take(text, end);
        return false;
    }

    /** Call it when the text could not be had: every slot takes this state. */
    void lose(State state) {
        layout.clear();
        readings.setUnknown(state);
        for (int slot = 0; slot < readings.slots(); slot++) {
            readings.set(slot, state, 0);
        }
    }

    /**
     * Gives slots back if many instances are gone for long, or if any are gone and another one of the latest text got none. Call it after
     * each text that was parsed in full, and now and then. True: the text should be taken once more, for there are slots now.
     */
    boolean renewIfWorn(long nanos) {
        boolean isFull = slots.isFull();
        long age = isFull ? 0 : Slots.GONE_FOR_NANOS;
        int gone = slots.noteGone(readings, age, nanos);
        if (!slots.areWorn(gone) && !(isFull && gone > 0)) {
            return false;
        }
        readings.takeOver(slots.renew(age, nanos));
        // Spans name slots, so the next text is parsed in full.
        layout.clear();
        sink.forget();
        return isFull;
    }

    Readings readings() {
        return readings;
    }

    Slots slots() {
        return slots;
    }

    /** The faults of the latest text that was parsed in full. */
    List<FaultNote> faults() {
        return sink.faults();
    }
}
