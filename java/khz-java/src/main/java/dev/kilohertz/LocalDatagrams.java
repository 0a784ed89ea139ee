package dev.kilohertz;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * A datagram socket of this machine, from which bytes are sent to sockets in the file system. Java's own channels know such sockets
 * as streams only, so this calls the C library. It never waits. It belongs to one thread at a time.
 */
final class LocalDatagrams implements AutoCloseable {
    /** Sent. */
    static final int OK = 0;
    /** The errors of the kernel that a sender meets in ordinary life. */
    static final int NO_SUCH_FILE = 2;
    static final int TRY_AGAIN = 11;
    static final int NO_ACCESS = 13;
    static final int NO_BUFFERS = 105;
    static final int NOBODY_LISTENS = 111;
    private static final int AF_UNIX = 1;
    private static final int SOCK_DGRAM = 2;
    private static final int SOCK_CLOEXEC = 0x80000;
    private static final int DONT_WAIT = 0x40;
    private static final int NO_SIGNAL = 0x4000;
    private static final long PATH_AT = 2;
    /** The kernel's limit, with the NUL at the end. */
    private static final int PATH_BYTES = 108;

    private static final StructLayout STATE = Linker.Option.captureStateLayout();
    private static final VarHandle ERRNO = STATE.varHandle(MemoryLayout.PathElement.groupElement("errno"));

    private final Arena arena = Arena.ofAuto();
    private final MemorySegment state = arena.allocate(STATE);
    private final MemorySegment address = arena.allocate(PATH_AT + PATH_BYTES, Short.BYTES);
    private final MemorySegment bytes;
    private final Calls calls;
    private final int socket;
    private boolean isClosed;

    /** The functions of the C library. Found when the first socket is made, so that other programs need no native access. */
    private record Calls(MethodHandle socket, MethodHandle sendto, MethodHandle close) {
        @SuppressWarnings("restricted") // Its caller says what to do where it is not allowed.
        private static Calls find() {
            Linker linker = Linker.nativeLinker();
            SymbolLookup library = linker.defaultLookup();
            Linker.Option errno = Linker.Option.captureCallState("errno");
            ValueLayout.OfInt number = ValueLayout.JAVA_INT;
            ValueLayout.OfLong size = ValueLayout.JAVA_LONG;
            FunctionDescriptor socket = FunctionDescriptor.of(number, number, number, number);
            FunctionDescriptor sendto =
                    FunctionDescriptor.of(size, number, ValueLayout.ADDRESS, size, number, ValueLayout.ADDRESS, number);
            return new Calls(linker.downcallHandle(library.findOrThrow("socket"), socket, errno),
                    linker.downcallHandle(library.findOrThrow("sendto"), sendto, errno),
                    linker.downcallHandle(library.findOrThrow("close"), FunctionDescriptor.of(number, number)));
        }
    }

    LocalDatagrams(int bytesMax) {
        try {
            calls = Calls.find();
        } catch (IllegalCallerException e) {
            throw new PublishException("this JVM may not call the C library, which sending to khz needs: start it with "
                    + "--enable-native-access=dev.kilohertz (with a class path: =ALL-UNNAMED)", e);
        }
        bytes = arena.allocate(bytesMax);
        address.set(ValueLayout.JAVA_SHORT, 0, (short) AF_UNIX);
        socket = open();
    }

    private int open() {
        int opened;
        try {
            opened = (int) calls.socket.invokeExact(state, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        } catch (Throwable e) {
            throw bug(e);
        }
        if (opened < 0) {
            throw new PublishException("cannot make a local socket (error " + errno() + " of the kernel): has this program too many open files?");
        }
        return opened;
    }

    /** The bytes of a path as an address; refuses one that the kernel could not take. */
    static byte[] address(Path path) {
        byte[] text = path.toString().getBytes(StandardCharsets.UTF_8);
        if (text.length >= PATH_BYTES) {
            throw new PublishException("the path of the socket " + path + " has " + text.length + " bytes, and the kernel takes "
                    + (PATH_BYTES - 1) + ": give the agent a shorter --run-dir");
        }
        return text;
    }

    /** Sends the first {@code length} bytes to the socket at an {@link #address}. Returns {@link #OK}, or the kernel's error. */
    int send(byte[] datagram, int length, byte[] to) {
        if (isClosed) {
            throw new IllegalStateException("this socket is closed");
        }
        MemorySegment.copy(datagram, 0, bytes, ValueLayout.JAVA_BYTE, 0, length);
        MemorySegment.copy(to, 0, address, ValueLayout.JAVA_BYTE, PATH_AT, to.length);
        address.set(ValueLayout.JAVA_BYTE, PATH_AT + to.length, (byte) 0);
        int addressBytes = (int) PATH_AT + to.length + 1;
        long sent;
        try {
            sent = (long) calls.sendto.invokeExact(state, socket, bytes, (long) length, DONT_WAIT | NO_SIGNAL, address, addressBytes);
        } catch (Throwable e) {
            throw bug(e);
        }
        return sent < 0 ? errno() : OK;
    }

    private int errno() {
        return (int) ERRNO.get(state, 0L);
    }

    @Override
    public void close() {
        if (isClosed) {
            return;
        }
        isClosed = true;
        try {
            int ignored = (int) calls.close.invokeExact(socket);
        } catch (Throwable e) {
            throw bug(e);
        }
    }

    private static RuntimeException bug(Throwable e) {
        return new IllegalStateException("BUG: a call of the C library failed before it began", e);
    }
}
