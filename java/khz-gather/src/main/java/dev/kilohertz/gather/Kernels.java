package dev.kilohertz.gather;

/** Chooses the way to the kernel. This is the choice before JDK 22; a newer JDK has another file of this name. */
final class Kernels {
    private Kernels() {
    }

    /** The fastest way that this JDK has. */
    static Kernel fastest() {
        return new ChannelKernel();
    }
}
