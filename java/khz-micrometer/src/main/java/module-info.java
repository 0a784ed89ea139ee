/**
 * The numbers of this machine as meters of Micrometer: {@link dev.kilohertz.micrometer.KhzMetrics} binds them to a registry.
 */
// Micrometer has no module descriptors.
@SuppressWarnings({"requires-automatic", "requires-transitive-automatic"})
module dev.kilohertz.micrometer {
    requires transitive dev.kilohertz;
    requires transitive micrometer.core;

    exports dev.kilohertz.micrometer;
}
