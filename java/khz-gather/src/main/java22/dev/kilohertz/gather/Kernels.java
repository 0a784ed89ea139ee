package dev.kilohertz.gather;

/** Chooses the way to the kernel, from JDK 22 on. */
final class Kernels {
    private Kernels() {
    }

    /** The fastest way that this JDK has: native calls, which the start of the program must have allowed. */
    static Kernel fastest() {
        Module own = Kernels.class.getModule();
        if (!own.isNativeAccessEnabled()) {
            String name = own.isNamed() ? own.getName() : "ALL-UNNAMED";
            throw new GatherException("native access is not enabled: start java with --enable-native-access=" + name
                    + " (in the manifest of a program's jar: Enable-Native-Access: ALL-UNNAMED), or read without it,"
                    + " more slowly: Gatherer.with().nativeAccess(false)");
        }
        return new ForeignKernel();
    }
}
