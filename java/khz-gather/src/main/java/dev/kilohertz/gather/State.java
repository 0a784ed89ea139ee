package dev.kilohertz.gather;

/** Whether a number is there, and if not, why. Unknown is never 0. */
public enum State {
    /** There is a number. */
    PRESENT(0, ""),
    /** Nothing was gathered yet. */
    NOT_YET(1, "not gathered yet"),
    /** This kernel does not print the field. */
    NO_FIELD(2, "this kernel does not print it"),
    /** The CPU or the interface is gone. */
    INSTANCE_GONE(3, "instance gone"),
    /** This host does not have the source. */
    NO_SOURCE(4, "this host does not have the source"),
    /** An expression gives no value here. */
    NO_RESULT(5, "no result"),
    /** The source could not be opened or read. */
    UNREADABLE(128, "source unreadable"),
    /** The text was not what the kernel documents. */
    MALFORMED(129, "malformed text"),
    /** The number does not fit into 64 bits. */
    OUT_OF_RANGE(130, "number beyond 64 bits"),
    /** The source did not answer before its deadline. */
    STUCK(131, "no answer before the deadline");

    private static final int FIRST_FAILURE = 128;
    private static final State[] BY_CODE = new State[256];

    static {
        for (int code = 0; code < BY_CODE.length; code++) {
            BY_CODE[code] = code < FIRST_FAILURE ? NOT_YET : UNREADABLE;
        }
        for (State state : values()) {
            BY_CODE[state.code & 0xFF] = state;
        }
    }

    private final byte code;
    private final String words;

    State(int code, String words) {
        this.code = (byte) code;
        this.words = words;
    }

    /**
     * The state that khz writes as this byte in its rows. An unknown byte, from a newer version, is the nearest known state.
     *
     * @param code the byte
     * @return the state
     */
    public static State of(byte code) {
        return BY_CODE[code & 0xFF];
    }

    /**
     * The byte that khz writes for this state.
     *
     * @return the byte
     */
    public byte code() {
        return code;
    }

    /**
     * True if something went wrong; false if there is a number, or if it is right that there is none.
     *
     * @return whether it is a failure
     */
    public boolean isFailure() {
        return (code & 0xFF) >= FIRST_FAILURE;
    }

    /**
     * Why there is no number, as khz says it; empty if there is one.
     *
     * @return the reason
     */
    public String words() {
        return words;
    }
}
