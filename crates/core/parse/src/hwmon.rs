//! `/sys/class/hwmon`: the sensors of the hardware: temperatures, fans, voltages, currents, power. Chips, sensors and names are
//! the same as in node_exporter; the elements are those in the kernel's documentation
//! (Documentation/hwmon/sysfs-interface.rst), and those of its drivers for Nuvoton and Apple. Other files of a driver are not
//! read.
//!
//! The field of an entry is the file without its number: `temp_max` for `temp3_max`. The crate `gather` finds the chips, and
//! says how a chip is called.

use khz_model::Unit;

use crate::entry::{Entry, counter, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "hwmon",
    path: "sys/class/hwmon",
    pieces: Pieces::Survey { subject: Subject::Sensors, captured: "survey/hwmon" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; 3 + SENSOR.len()] =
    Group::join(&[&[CHIP, FREQUENCY, LABELLED], &SENSOR_GROUP.each(&SENSOR)]);

const CHIP: Group = Group { label: "chip", kind: "chip", entries: PER_CHIP, ..Group::PLAIN };

/// node_exporter calls a clock by its label, not by its sensor.
const FREQUENCY: Group =
    Group { label: "chip", kind: "clock", entries: PER_CLOCK, instance_labels: &["sensor"], ..Group::PLAIN };

const SENSOR_GROUP: Group =
    Group { label: "chip", kind: "sensor", instance_labels: &["sensor"], ..Group::PLAIN };

const LABELLED: Group = Group { entries: LABEL, ..SENSOR_GROUP };

static PER_CHIP: &[Entry] =
    &[info("hwmon.chip", "chip_name=name", "node_hwmon_chip_names", "Name that the driver gives the chip.")
        .every(SURVEY_PERIOD)];

static PER_CLOCK: &[Entry] = &[gauge(
    "hwmon.frequency",
    "freq_input",
    Unit::Hertz,
    "Frequency of a clock, as graphics cards have them.",
)
.divided(1_000_000)
.every(SURVEY_PERIOD)
.exposed("node_hwmon_freq_freq_mhz", &[])];

static LABEL: &[Entry] = &[info(
    "hwmon.label",
    "label",
    "node_hwmon_sensor_label",
    "What the driver says that the sensor measures.",
)
.every(SURVEY_PERIOD)];

/// `places`: the kernel counts in steps of `10^-places`.
const fn plain(
    name: &'static str,
    field: &'static str,
    unit: Unit,
    places: u8,
    family: &'static str,
    help: &'static str,
) -> Entry {
    gauge(name, field, unit, help).steps(places).every(SURVEY_PERIOD).exposed(family, &[])
}

/// A value that may be below zero.
const fn signed(
    name: &'static str,
    field: &'static str,
    unit: Unit,
    places: u8,
    family: &'static str,
    help: &'static str,
) -> Entry {
    plain(name, field, unit, places, family, help).signed()
}

const fn counted(
    name: &'static str,
    field: &'static str,
    unit: Unit,
    places: u8,
    family: &'static str,
    help: &'static str,
) -> Entry {
    counter(name, field, unit, help).steps(places).every(SURVEY_PERIOD).exposed(family, &[])
}

/// A row for each number: how it is made, the end of its name, the file without its number, unit, places, the end of
/// node_exporter's name, help.
macro_rules! sensors {
    ($($maker:ident, $name:literal, $file:literal, $unit:ident, $places:literal, $family:literal, $help:literal
        $(.divided($divisor:literal))?;)*) => {
        [$($maker(
            concat!("hwmon.", $name),
            $file,
            Unit::$unit,
            $places,
            concat!("node_hwmon_", $family),
            $help,
        )$(.divided($divisor))?),*]
    };
}

/// Alarms are 0 or 1; node_exporter divides some of them as if they were values.
static SENSOR: [Entry; 146] = sensors! {
    signed, "temp", "temp_input", Celsius, 3, "temp_celsius", "Temperature.";
    signed, "temp_max", "temp_max", Celsius, 3, "temp_max_celsius", "High temperature.";
    signed, "temp_max_hyst", "temp_max_hyst", Celsius, 3, "temp_max_hyst_celsius", "The temperature at which one that was high is no longer.";
    signed, "temp_min", "temp_min", Celsius, 3, "temp_min_celsius", "Low temperature.";
    signed, "temp_min_hyst", "temp_min_hyst", Celsius, 3, "temp_min_hyst_celsius", "The temperature at which one that was low is no longer.";
    signed, "temp_crit", "temp_crit", Celsius, 3, "temp_crit_celsius", "Critical temperature.";
    signed, "temp_crit_hyst", "temp_crit_hyst", Celsius, 3, "temp_crit_hyst_celsius", "The temperature at which one that was critical is no longer.";
    signed, "temp_lcrit", "temp_lcrit", Celsius, 3, "temp_lcrit_celsius", "Critical low temperature.";
    signed, "temp_lcrit_hyst", "temp_lcrit_hyst", Celsius, 3, "temp_lcrit_hyst_celsius", "The temperature at which one that was critically low is no longer.";
    signed, "temp_emergency", "temp_emergency", Celsius, 3, "temp_emergency_celsius", "The temperature at which the hardware switches itself off.";
    signed, "temp_emergency_hyst", "temp_emergency_hyst", Celsius, 3, "temp_emergency_hyst_celsius", "The temperature at which there is no emergency any more.";
    signed, "temp_offset", "temp_offset", Celsius, 3, "temp_offset_celsius", "What is added to the temperature.";
    signed, "temp_lowest", "temp_lowest", Celsius, 3, "temp_lowest_celsius", "The lowest temperature so far.";
    signed, "temp_highest", "temp_highest", Celsius, 3, "temp_highest_celsius", "The highest temperature so far.";
    signed, "temp_rated_min", "temp_rated_min", Celsius, 3, "temp_rated_min_celsius", "The lowest temperature that the part is made for.";
    signed, "temp_rated_max", "temp_rated_max", Celsius, 3, "temp_rated_max_celsius", "The highest temperature that the part is made for.";
    plain, "temp_min_alarm", "temp_min_alarm", Count, 0, "temp_min_alarm_celsius", "1 if the value is too low.".divided(1000);
    plain, "temp_max_alarm", "temp_max_alarm", Count, 0, "temp_max_alarm_celsius", "1 if the value is too high.".divided(1000);
    plain, "temp_crit_alarm", "temp_crit_alarm", Count, 0, "temp_crit_alarm_celsius", "1 if the value is critical.".divided(1000);
    plain, "temp_lcrit_alarm", "temp_lcrit_alarm", Count, 0, "temp_lcrit_alarm_celsius", "1 if the value is so low that it is critical.".divided(1000);
    plain, "temp_emergency_alarm", "temp_emergency_alarm", Count, 0, "temp_emergency_alarm_celsius", "1 if there is an emergency.".divided(1000);
    plain, "temp_type", "temp_type", Count, 0, "temp_type", "Kind of the sensor: 1 diode of a processor, 2 transistor, 3 thermal diode, 4 thermistor, 5 AMD, 6 Intel.";
    plain, "temp_alarm", "temp_alarm", Count, 0, "temp_alarm", "1 if the sensor gives an alarm.";
    plain, "temp_fault", "temp_fault", Count, 0, "temp_fault", "1 if the sensor is broken.";
    plain, "temp_beep", "temp_beep", Count, 0, "temp_beep_enabled", "1 if an alarm of the sensor beeps.";
    plain, "fan", "fan_input", Count, 0, "fan_rpm", "Speed of the fan, in turns a minute.";
    plain, "fan_min", "fan_min", Count, 0, "fan_min_rpm", "Speed below which the fan counts as too slow.";
    plain, "fan_max", "fan_max", Count, 0, "fan_max_rpm", "Speed above which the fan counts as too fast.";
    plain, "fan_target", "fan_target", Count, 0, "fan_target_rpm", "Speed that is wanted.";
    plain, "fan_pulses", "fan_pulses", Count, 0, "fan_pulses", "Pulses that the fan gives in a turn.";
    plain, "fan_div", "fan_div", Count, 0, "fan_div", "Divisor of the counter of the fan.";
    plain, "fan_manual", "fan_manual", Count, 0, "fan_manual", "1 if the speed is set by hand.";
    plain, "fan_output", "fan_output", Count, 0, "fan_output", "Speed that is set.";
    plain, "fan_safe", "fan_safe", Count, 0, "fan_safe", "The lowest speed that is safe.";
    plain, "fan_tolerance", "fan_tolerance", Count, 0, "fan_tolerance", "How far the speed may be off.";
    plain, "fan_min_alarm", "fan_min_alarm", Count, 0, "fan_min_alarm", "1 if the fan is too slow.";
    plain, "fan_max_alarm", "fan_max_alarm", Count, 0, "fan_max_alarm", "1 if the fan is too fast.";
    plain, "fan_alarm", "fan_alarm", Count, 0, "fan_alarm", "1 if the sensor gives an alarm.";
    plain, "fan_fault", "fan_fault", Count, 0, "fan_fault", "1 if the sensor is broken.";
    plain, "fan_beep", "fan_beep", Count, 0, "fan_beep_enabled", "1 if an alarm of the sensor beeps.";
    signed, "in", "in_input", Volts, 3, "in_volts", "Voltage that the sensor measures.";
    signed, "in_min", "in_min", Volts, 3, "in_min_volts", "Low voltage.";
    signed, "in_max", "in_max", Volts, 3, "in_max_volts", "High voltage.";
    signed, "in_lcrit", "in_lcrit", Volts, 3, "in_lcrit_volts", "Critical low voltage.";
    signed, "in_crit", "in_crit", Volts, 3, "in_crit_volts", "Critical voltage.";
    signed, "in_average", "in_average", Volts, 3, "in_average_volts", "Average voltage.";
    signed, "in_lowest", "in_lowest", Volts, 3, "in_lowest_volts", "The lowest voltage so far.";
    signed, "in_highest", "in_highest", Volts, 3, "in_highest_volts", "The highest voltage so far.";
    signed, "in_rated_min", "in_rated_min", Volts, 3, "in_rated_min_volts", "The lowest voltage that the part is made for.";
    signed, "in_rated_max", "in_rated_max", Volts, 3, "in_rated_max_volts", "The highest voltage that the part is made for.";
    plain, "in_min_alarm", "in_min_alarm", Count, 0, "in_min_alarm_volts", "1 if the value is too low.".divided(1000);
    plain, "in_max_alarm", "in_max_alarm", Count, 0, "in_max_alarm_volts", "1 if the value is too high.".divided(1000);
    plain, "in_crit_alarm", "in_crit_alarm", Count, 0, "in_crit_alarm_volts", "1 if the value is critical.".divided(1000);
    plain, "in_lcrit_alarm", "in_lcrit_alarm", Count, 0, "in_lcrit_alarm_volts", "1 if the value is so low that it is critical.".divided(1000);
    plain, "in_alarm", "in_alarm", Count, 0, "in_alarm", "1 if the sensor gives an alarm.";
    plain, "in_fault", "in_fault", Count, 0, "in_fault", "1 if the sensor is broken.";
    plain, "in_beep", "in_beep", Count, 0, "in_beep_enabled", "1 if an alarm of the sensor beeps.";
    signed, "cpu_vid", "cpu_vid", Volts, 3, "cpu_vid_volts", "Voltage that the processor asks for.";
    signed, "curr", "curr_input", Amperes, 3, "curr_amps", "Current that the sensor measures.";
    signed, "curr_min", "curr_min", Amperes, 3, "curr_min_amps", "Low current.";
    signed, "curr_max", "curr_max", Amperes, 3, "curr_max_amps", "High current.";
    signed, "curr_lcrit", "curr_lcrit", Amperes, 3, "curr_lcrit_amps", "Critical low current.";
    signed, "curr_crit", "curr_crit", Amperes, 3, "curr_crit_amps", "Critical current.";
    signed, "curr_average", "curr_average", Amperes, 3, "curr_average_amps", "Average current.";
    signed, "curr_lowest", "curr_lowest", Amperes, 3, "curr_lowest_amps", "The lowest current so far.";
    signed, "curr_highest", "curr_highest", Amperes, 3, "curr_highest_amps", "The highest current so far.";
    signed, "curr_rated_min", "curr_rated_min", Amperes, 3, "curr_rated_min_amps", "The lowest current that the part is made for.";
    signed, "curr_rated_max", "curr_rated_max", Amperes, 3, "curr_rated_max_amps", "The highest current that the part is made for.";
    plain, "curr_min_alarm", "curr_min_alarm", Count, 0, "curr_min_alarm_amps", "1 if the value is too low.".divided(1000);
    plain, "curr_max_alarm", "curr_max_alarm", Count, 0, "curr_max_alarm_amps", "1 if the value is too high.".divided(1000);
    plain, "curr_crit_alarm", "curr_crit_alarm", Count, 0, "curr_crit_alarm_amps", "1 if the value is critical.".divided(1000);
    plain, "curr_lcrit_alarm", "curr_lcrit_alarm", Count, 0, "curr_lcrit_alarm_amps", "1 if the value is so low that it is critical.".divided(1000);
    plain, "curr_alarm", "curr_alarm", Count, 0, "curr_alarm", "1 if the sensor gives an alarm.";
    plain, "curr_fault", "curr_fault", Count, 0, "curr_fault", "1 if the sensor is broken.";
    plain, "curr_beep", "curr_beep", Count, 0, "curr_beep_enabled", "1 if an alarm of the sensor beeps.";
    signed, "power", "power_input", Watts, 6, "power_watt", "Power that the sensor measures.";
    signed, "power_average", "power_average", Watts, 6, "power_average_watt", "Average power.";
    signed, "power_average_highest", "power_average_highest", Watts, 6, "power_average_highest_watt", "The highest average power so far.";
    signed, "power_average_lowest", "power_average_lowest", Watts, 6, "power_average_lowest_watt", "The lowest average power so far.";
    signed, "power_average_max", "power_average_max", Watts, 6, "power_average_max_watt", "High average power.";
    signed, "power_average_min", "power_average_min", Watts, 6, "power_average_min_watt", "Low average power.";
    signed, "power_input_highest", "power_input_highest", Watts, 6, "power_input_highest_watt", "The highest power so far.";
    signed, "power_input_lowest", "power_input_lowest", Watts, 6, "power_input_lowest_watt", "The lowest power so far.";
    signed, "power_cap", "power_cap", Watts, 6, "power_cap_watt", "The power to which the part is limited.";
    signed, "power_cap_hyst", "power_cap_hyst", Watts, 6, "power_cap_hyst_watt", "How far below the limit the power must fall.";
    signed, "power_cap_max", "power_cap_max", Watts, 6, "power_cap_max_watt", "The highest such limit.";
    signed, "power_cap_min", "power_cap_min", Watts, 6, "power_cap_min_watt", "The lowest such limit.";
    signed, "power_max", "power_max", Watts, 6, "power_max_watt", "Power that counts as high.";
    signed, "power_min", "power_min", Watts, 6, "power_min_watt", "Power that counts as low.";
    signed, "power_crit", "power_crit", Watts, 6, "power_crit_watt", "Critical power.";
    signed, "power_lcrit", "power_lcrit", Watts, 6, "power_lcrit_watt", "Critical low power.";
    signed, "power_rated_min", "power_rated_min", Watts, 6, "power_rated_min_watt", "The lowest power that the part is made for.";
    signed, "power_rated_max", "power_rated_max", Watts, 6, "power_rated_max_watt", "The highest power that the part is made for.";
    plain, "power_average_interval", "power_average_interval", Seconds, 3, "power_average_interval_seconds", "Time over which the average is taken.";
    plain, "power_average_interval_max", "power_average_interval_max", Seconds, 3, "power_average_interval_max_seconds", "The longest such time.";
    plain, "power_average_interval_min", "power_average_interval_min", Seconds, 3, "power_average_interval_min_seconds", "The shortest such time.";
    plain, "power_accuracy", "power_accuracy", Count, 6, "power_accuracy", "How exact the power is, as a share.";
    plain, "power_min_alarm", "power_min_alarm", Count, 0, "power_min_alarm_watt", "1 if the value is too low.".divided(1000000);
    plain, "power_max_alarm", "power_max_alarm", Count, 0, "power_max_alarm_watt", "1 if the value is too high.".divided(1000000);
    plain, "power_crit_alarm", "power_crit_alarm", Count, 0, "power_crit_alarm_watt", "1 if the value is critical.".divided(1000000);
    plain, "power_lcrit_alarm", "power_lcrit_alarm", Count, 0, "power_lcrit_alarm_watt", "1 if the value is so low that it is critical.".divided(1000000);
    plain, "power_cap_alarm", "power_cap_alarm", Count, 0, "power_cap_alarm_watt", "1 if the power is above the limit.".divided(1000000);
    plain, "power_alarm", "power_alarm", Count, 0, "power_alarm", "1 if the sensor gives an alarm.";
    plain, "power_fault", "power_fault", Count, 0, "power_fault", "1 if the sensor is broken.";
    plain, "power_beep", "power_beep", Count, 0, "power_beep_enabled", "1 if an alarm of the sensor beeps.";
    counted, "energy", "energy_input", Joules, 6, "energy_joule_total", "Energy used.";
    plain, "humidity", "humidity_input", Count, 6, "humidity", "Humidity, as a millionth of what the kernel prints (node_exporter does so).";
    plain, "intrusion_alarm", "intrusion_alarm", Count, 0, "intrusion_alarm", "1 if somebody has opened the case.";
    plain, "intrusion_beep", "intrusion_beep", Count, 0, "intrusion_beep_enabled", "1 if opening the case beeps.";
    plain, "pwm", "pwm", Count, 0, "pwm", "Share of the time in which the fan has power, of 255.";
    plain, "pwm_enable", "pwm_enable", Count, 0, "pwm_enable", "How the fan is ruled: 0 full speed, 1 by hand, 2 and more by itself.";
    plain, "pwm_mode", "pwm_mode", Count, 0, "pwm_mode", "1 if the voltage of the fan is switched, not changed.";
    plain, "pwm_freq", "pwm_freq", Count, 0, "pwm_freq", "Frequency of the switching.";
    plain, "pwm_auto_channels_temp", "pwm_auto_channels_temp", Count, 0, "pwm_auto_channels_temp", "Sensors of temperature that rule the fan.";
    plain, "pwm_auto_point1_pwm", "pwm_auto_point1_pwm", Count, 0, "pwm_auto_point1_pwm", "Power of the fan at point 1 of its curve.";
    plain, "pwm_auto_point1_temp", "pwm_auto_point1_temp", Count, 0, "pwm_auto_point1_temp", "Temperature of point 1 of the curve, as the kernel prints it.";
    plain, "pwm_auto_point2_pwm", "pwm_auto_point2_pwm", Count, 0, "pwm_auto_point2_pwm", "Power of the fan at point 2 of its curve.";
    plain, "pwm_auto_point2_temp", "pwm_auto_point2_temp", Count, 0, "pwm_auto_point2_temp", "Temperature of point 2 of the curve, as the kernel prints it.";
    plain, "pwm_auto_point3_pwm", "pwm_auto_point3_pwm", Count, 0, "pwm_auto_point3_pwm", "Power of the fan at point 3 of its curve.";
    plain, "pwm_auto_point3_temp", "pwm_auto_point3_temp", Count, 0, "pwm_auto_point3_temp", "Temperature of point 3 of the curve, as the kernel prints it.";
    plain, "pwm_auto_point4_pwm", "pwm_auto_point4_pwm", Count, 0, "pwm_auto_point4_pwm", "Power of the fan at point 4 of its curve.";
    plain, "pwm_auto_point4_temp", "pwm_auto_point4_temp", Count, 0, "pwm_auto_point4_temp", "Temperature of point 4 of the curve, as the kernel prints it.";
    plain, "pwm_auto_point5_pwm", "pwm_auto_point5_pwm", Count, 0, "pwm_auto_point5_pwm", "Power of the fan at point 5 of its curve.";
    plain, "pwm_auto_point5_temp", "pwm_auto_point5_temp", Count, 0, "pwm_auto_point5_temp", "Temperature of point 5 of the curve, as the kernel prints it.";
    plain, "pwm_auto_point6_pwm", "pwm_auto_point6_pwm", Count, 0, "pwm_auto_point6_pwm", "Power of the fan at point 6 of its curve.";
    plain, "pwm_auto_point6_temp", "pwm_auto_point6_temp", Count, 0, "pwm_auto_point6_temp", "Temperature of point 6 of the curve, as the kernel prints it.";
    plain, "pwm_auto_point7_pwm", "pwm_auto_point7_pwm", Count, 0, "pwm_auto_point7_pwm", "Power of the fan at point 7 of its curve.";
    plain, "pwm_auto_point7_temp", "pwm_auto_point7_temp", Count, 0, "pwm_auto_point7_temp", "Temperature of point 7 of the curve, as the kernel prints it.";
    plain, "pwm_crit_temp_tolerance", "pwm_crit_temp_tolerance", Count, 0, "pwm_crit_temp_tolerance", "How far the temperature must fall below the critical one.";
    plain, "pwm_floor", "pwm_floor", Count, 0, "pwm_floor", "The lowest power of the fan.";
    plain, "pwm_start", "pwm_start", Count, 0, "pwm_start", "Power with which the fan starts.";
    plain, "pwm_step_down_time", "pwm_step_down_time", Count, 0, "pwm_step_down_time", "Time between two steps down.";
    plain, "pwm_step_up_time", "pwm_step_up_time", Count, 0, "pwm_step_up_time", "Time between two steps up.";
    plain, "pwm_stop_time", "pwm_stop_time", Count, 0, "pwm_stop_time", "Time after which the fan stops.";
    plain, "pwm_target_temp", "pwm_target_temp", Count, 0, "pwm_target_temp", "Temperature that is wanted.";
    plain, "pwm_temp_sel", "pwm_temp_sel", Count, 0, "pwm_temp_sel", "The sensor that rules the fan.";
    plain, "pwm_temp_tolerance", "pwm_temp_tolerance", Count, 0, "pwm_temp_tolerance", "How far the temperature may be off.";
    plain, "pwm_weight_duty_base", "pwm_weight_duty_base", Count, 0, "pwm_weight_duty_base", "Power that the second sensor adds first.";
    plain, "pwm_weight_duty_step", "pwm_weight_duty_step", Count, 0, "pwm_weight_duty_step", "Power that the second sensor adds at each step.";
    plain, "pwm_weight_temp_sel", "pwm_weight_temp_sel", Count, 0, "pwm_weight_temp_sel", "The second sensor that rules the fan.";
    plain, "pwm_weight_temp_step", "pwm_weight_temp_step", Count, 0, "pwm_weight_temp_step", "Temperature of a step of the second sensor.";
    plain, "pwm_weight_temp_step_base", "pwm_weight_temp_step_base", Count, 0, "pwm_weight_temp_step_base", "Temperature at which the steps begin.";
    plain, "pwm_weight_temp_step_tol", "pwm_weight_temp_step_tol", Count, 0, "pwm_weight_temp_step_tol", "How far the temperature of a step may be off.";
    plain, "voltage_regulator_version", "vrm", Count, 0, "voltage_regulator_version", "Version of the voltage regulators.";
    plain, "update_interval", "update_interval", Seconds, 3, "update_interval_seconds", "How often the chip measures.";
    plain, "beep_enable", "beep_enable", Count, 0, "beep_enabled", "1 if the chip may beep.";
};
