package dev.kilohertz.gather;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The slots of one kernel file: which slot belongs to which metric of which instance. A slot keeps its meaning until the slots are
 * renewed, which gives the slots back of instances that are gone for long: an instance that comes back before gets its old slots. When
 * all slots are taken, those of all instances that are gone are given back at once.
 */
final class Slots {
    /** No slots are left. */
    static final int NONE = -1;

    /** Most slots of a file: 10,000 interfaces with 16 counters, and half as much again. */
    static final int SLOTS_MAX = 1 << 18;

    /** Slots are given back when more than this many, and more than one in {@link #GONE_SHARE}, belong to instances that are gone. */
    private static final int GONE_SLOTS_MIN = 64;
    private static final int GONE_SHARE = 4;

    /** An interface that comes back within this time keeps its slots. */
    static final long GONE_FOR_NANOS = 30_000_000_000L;

    private final KernelFile file;
    private final int width;
    private List<Instance> instances = new ArrayList<>();
    private final NameKey looked = new NameKey();
    private Map<NameKey, Instance> byName = new HashMap<>();
    private Map<String, Instance> byText = new HashMap<>();
    private int count;
    /** The index of the instance that probably comes next: the kernel seldom changes their order. */
    private int expected;
    private long generation;
    /** An instance of the present text got no slots. */
    private boolean isFull;

    Slots(KernelFile file) {
        this.file = file;
        width = file.grouped().size();
        count = file.scalars().size();
    }

    int count() {
        return count;
    }

    /** How many slots an instance has. */
    int width() {
        return width;
    }

    /** Changes whenever a slot gets a meaning or another meaning. */
    long generation() {
        return generation;
    }

    /** Begins a new parse. */
    void rewind() {
        expected = 0;
        isFull = false;
    }

    /** True if an instance of the latest parse got no slots, because there are no more. */
    boolean isFull() {
        return isFull;
    }

    /** The first slot of the instance that the text calls so; an unknown one gets new slots. {@link #NONE}: no slots are left. */
    int instance(byte[] text, int start, int end) {
        if (expected < instances.size()) {
            Instance next = instances.get(expected);
            if (Words.is(text, start, end, next.name())) {
                expected++;
                return next.base();
            }
        }
        Instance known = byName.get(looked.set(text, start, end));
        if (known == null) {
            return append(Arrays.copyOfRange(text, start, end));
        }
        expected = number(known.base()) + 1;
        return known.base();
    }

    private int append(byte[] name) {
        if (count + width > SLOTS_MAX) {
            isFull = true;
            return NONE;
        }
        Instance instance = new Instance(name, count);
        // Two names that differ only after the kernel's longest would share one text.
        if (byText.putIfAbsent(instance.text(), instance) != null) {
            return NONE;
        }
        byName.put(key(instance), instance);
        instances.add(instance);
        expected = instances.size();
        count += width;
        generation++;
        return instance.base();
    }

    private static NameKey key(Instance instance) {
        return new NameKey().set(instance.name(), 0, instance.name().length);
    }

    /** How many instances have slots. */
    int instances() {
        return instances.size();
    }

    /** The first slot of an instance, by its number. */
    int base(int instance) {
        return instances.get(instance).base();
    }

    /** The slot of an instance's metric; {@link #NONE} if the instance is unknown. */
    int find(String instance, int entry) {
        Instance known = byText.get(instance);
        return known == null ? NONE : known.base() + entry;
    }

    /** What each slot means. */
    List<Series> series() {
        List<Series> series = new ArrayList<>(count);
        file.scalars().forEach(entry -> series.add(new Series(entry.metric(), "")));
        for (Instance instance : instances) {
            file.grouped().forEach(entry -> series.add(new Series(entry.metric(), instance.text())));
        }
        return series;
    }

    /** The same without instances that are gone. */
    List<Series> living() {
        List<Series> living = new ArrayList<>(count);
        file.scalars().forEach(entry -> living.add(new Series(entry.metric(), "")));
        for (Instance instance : instances) {
            if (!instance.isGone()) {
                file.grouped().forEach(entry -> living.add(new Series(entry.metric(), instance.text())));
            }
        }
        return living;
    }

    /** The name of a slot. */
    String name(int slot) {
        int scalars = file.scalars().size();
        if (slot < scalars) {
            return file.scalars().get(slot).metric().name();
        }
        Metric metric = file.grouped().get((slot - scalars) % width).metric();
        return new Series(metric, instances.get(number(slot)).text()).toString();
    }

    /** The number of the instance that has this slot. */
    private int number(int slot) {
        return (slot - file.scalars().size()) / width;
    }

    /**
     * Notes which instances are gone at this time. Returns how many slots belong to those that are gone for at least {@code age}.
     */
    int noteGone(Readings readings, long age, long nanos) {
        int gone = 0;
        // An iterator would be allocated.
        for (int number = 0; number < instances.size(); number++) {
            Instance instance = instances.get(number);
            instance.note(readings.is(instance.base(), State.INSTANCE_GONE), nanos);
            gone += instance.isGoneFor(age, nanos) ? width : 0;
        }
        return gone;
    }

    /** True if so many of the slots are of instances that are gone that they should be given back. */
    boolean areWorn(int gone) {
        return gone > GONE_SLOTS_MIN && gone > count / GONE_SHARE;
    }

    /** Gives the slots back of instances that are gone for at least {@code age}. Returns the old slot of each slot that is left. */
    int[] renew(long age, long nanos) {
        List<Instance> all = instances;
        instances = new ArrayList<>();
        byName = new HashMap<>();
        byText = new HashMap<>();
        count = file.scalars().size();
        int[] old = new int[count + all.size() * width];
        for (int slot = 0; slot < count; slot++) {
            old[slot] = slot;
        }
        for (Instance instance : all) {
            if (!instance.isGoneFor(age, nanos)) {
                for (int entry = 0; entry < width; entry++) {
                    old[count + entry] = instance.base() + entry;
                }
                instance.moveTo(count);
                instances.add(instance);
                byName.put(key(instance), instance);
                byText.put(instance.text(), instance);
                count += width;
            }
        }
        generation++;
        return Arrays.copyOf(old, count);
    }
}
