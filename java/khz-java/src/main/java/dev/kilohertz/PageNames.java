package dev.kilohertz;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What the slots of one page are called. It reads the names that were added since, and never one twice. Not for several threads. */
final class PageNames {
    private static final ValueLayout.OfShort SHORT = ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final int FIXED_BYTES = 8;
    private static final ValueType[] TYPES = {ValueType.UNSIGNED, ValueType.SIGNED, ValueType.FLOAT, ValueType.LABELS};

    private final Page page;
    private final Map<String, Integer> slots = new HashMap<>();
    private final List<Series> series = new ArrayList<>();
    private int read;

    PageNames(Page page) {
        this.page = page;
    }

    /** The slot of this name, or -1. */
    int find(String name) {
        renew();
        return slots.getOrDefault(name, -1);
    }

    /** All series, in the order of their slots. */
    List<Series> all() {
        renew();
        return List.copyOf(series);
    }

    private void renew() {
        int complete = page.slots();
        if (complete == series.size()) {
            return;
        }
        MemorySegment names = page.names(read);
        long at = 0;
        while (series.size() < complete && at + FIXED_BYTES <= names.byteSize()) {
            int length = names.get(SHORT, at) & 0xffff;
            int unit = names.get(ValueLayout.JAVA_BYTE, at + 5) & 255;
            int name = names.get(SHORT, at + 6) & 0xffff;
            if (length < FIXED_BYTES + unit + name || at + length > names.byteSize()) {
                // Damaged: nobody knows where the next one begins.
                break;
            }
            take(names.asSlice(at, length), unit, name);
            at += length;
        }
        read += (int) at;
    }

    private void take(MemorySegment entry, int unit, int name) {
        int kind = entry.get(ValueLayout.JAVA_BYTE, 3) & 255;
        int places = entry.get(ValueLayout.JAVA_BYTE, 4) & 255;
        byte[] text = entry.asSlice(FIXED_BYTES, unit + name).toArray(ValueLayout.JAVA_BYTE);
        String called = new String(text, unit, name, StandardCharsets.UTF_8);
        ValueType type = kind >> 4 < TYPES.length ? TYPES[kind >> 4] : ValueType.UNKNOWN;
        slots.putIfAbsent(called, series.size());
        series.add(new Series(called, new String(text, 0, unit, StandardCharsets.UTF_8),
                (kind & 15) == 0 ? Kind.COUNTER : Kind.GAUGE, type, places));
    }
}
