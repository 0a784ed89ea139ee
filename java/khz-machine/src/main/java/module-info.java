/**
 * The numbers of this machine, from the agent while one runs and else from the gatherer: {@link dev.kilohertz.machine.MachineNumbers}.
 *
 * <p><b>Why a module of its own.</b> It is the only one that knows both sides. khz-gather is for JDK 17 and newer, so it cannot be
 * compiled against khz-java, which is for JDK 25. khz-java needs nothing but the JDK; with an optional dependency, some of its public
 * classes would fail to load in programs that lack the other library. Programs that want one side use that library alone.
 */
module dev.kilohertz.machine {
    requires transitive dev.kilohertz;
    requires transitive dev.kilohertz.gather;

    exports dev.kilohertz.machine;
}
