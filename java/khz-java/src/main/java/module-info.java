/**
 * The numbers of a Linux cluster, for programs on the JVM: {@link dev.kilohertz.Snapshot} reads those of this machine out of
 * shared memory, {@link dev.kilohertz.Client} those of the cluster out of a hub, and {@link dev.kilohertz.Publisher} adds the
 * program's own.
 */
module dev.kilohertz {
    exports dev.kilohertz;
}
