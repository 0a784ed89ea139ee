/** The numbers of this machine, whether an agent runs or not. Begin with {@link dev.kilohertz.machine.MachineNumbers}. */
package dev.kilohertz.machine;
