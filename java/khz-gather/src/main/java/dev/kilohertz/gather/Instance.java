package dev.kilohertz.gather;

/** A CPU or an interface that has slots. */
final class Instance {
    private static final long HERE = Long.MIN_VALUE;

    /** Its name in the kernel's text. */
    private final byte[] name;
    private final String text;
    private int base;
    private long goneSince = HERE;

    Instance(byte[] name, int base) {
        this.name = name;
        this.text = KernelName.of(name, 0, name.length);
        this.base = base;
    }

    byte[] name() {
        return name;
    }

    /** Its name as khz shows it. */
    String text() {
        return text;
    }

    /** Its first slot. */
    int base() {
        return base;
    }

    void moveTo(int newBase) {
        base = newBase;
    }

    /** Notes whether it is gone at this time. */
    void note(boolean isGone, long nanos) {
        if (!isGone) {
            goneSince = HERE;
        } else if (goneSince == HERE) {
            goneSince = nanos;
        }
    }

    /** True if it is known to be gone. */
    boolean isGone() {
        return goneSince != HERE;
    }

    /** True if it is known to be gone for at least this long. */
    boolean isGoneFor(long age, long nanos) {
        return isGone() && nanos - goneSince >= age;
    }
}
