//! `/sys/class/power_supply`: batteries, mains and other supplies of power, as laptops have them. The power supplies of servers
//! are sensors ([`crate::hwmon`]).

use khz_model::Unit;

use crate::entry::{Entry, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "power_supply",
    path: "sys/class/power_supply",
    pieces: Pieces::Survey { subject: Subject::Tree("power_supply"), captured: "survey/power_supply" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; 1 + NUMBERS.len()] =
    Group::join(&[&SUPPLY.each(&NUMBERS), &[Group { entries: INFO, ..SUPPLY }]]);

const SUPPLY: Group = Group {
    label: "power_supply",
    branch: Some(Branch { folders: "sys/class/power_supply/*", name: &[Part::Captured(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
};

/// Some drivers print numbers below zero. `places`: the kernel counts in steps of `10^-places`.
const fn of_supply(
    name: &'static str,
    file: &'static str,
    unit: Unit,
    places: u8,
    family: &'static str,
    help: &'static str,
) -> Entry {
    gauge(name, file, unit, help).steps(places).signed().every(SURVEY_PERIOD).exposed(family, &[])
}

/// A row for each number: its file, which is the end of its name, too, unit, places, the end of node_exporter's name, help.
macro_rules! numbers {
    ($($file:literal, $unit:ident, $places:literal, $family:literal, $help:literal;)*) => {
        [$(of_supply(
            concat!("power_supply.", $file),
            $file,
            Unit::$unit,
            $places,
            concat!("node_power_supply_", $family),
            $help,
        )),*]
    };
}

static NUMBERS: [Entry; 49] = numbers! {
    "authentic", Count, 0, "authentic", "1 if the battery is a genuine one.";
    "calibrate", Count, 0, "calibrate", "1 while the battery is calibrated.";
    "capacity", Percent, 0, "capacity", "Charge of the battery, of a hundred.";
    "capacity_alert_max", Percent, 0, "capacity_alert_max", "Charge above which the kernel tells of it.";
    "capacity_alert_min", Percent, 0, "capacity_alert_min", "Charge below which the kernel tells of it.";
    "cycle_count", Count, 0, "cyclecount", "Times that the battery was charged and used up.";
    "online", Count, 0, "online", "1 if it is supplied with power, 2 if at a voltage that can be programmed.";
    "present", Count, 0, "present", "1 if it is there.";
    "time_to_empty_now", Seconds, 0, "time_to_empty_seconds", "Time until the battery is empty.";
    "time_to_full_now", Seconds, 0, "time_to_full_seconds", "Time until the battery is full.";
    "current_boot", Amperes, 6, "current_boot", "Current at the start.";
    "current_max", Amperes, 6, "current_max", "The largest current that it may give.";
    "current_now", Amperes, 6, "current_ampere", "Current; below zero while the battery is used, with some drivers.";
    "energy_empty", Count, 6, "energy_empty", "Energy at which the battery counts as empty, in watt hours.";
    "energy_empty_design", Count, 6, "energy_empty_design", "The same as it was designed, in watt hours.";
    "energy_full", Count, 6, "energy_full", "Energy of the full battery, in watt hours.";
    "energy_full_design", Count, 6, "energy_full_design", "Energy of the full battery as it was designed, in watt hours.";
    "energy_now", Count, 6, "energy_watthour", "Energy of the battery, in watt hours.";
    "voltage_boot", Volts, 6, "voltage_boot", "Voltage at the start.";
    "voltage_max", Volts, 6, "voltage_max", "The largest voltage so far, or that may be.";
    "voltage_max_design", Volts, 6, "voltage_max_design", "The largest voltage as it was designed.";
    "voltage_min", Volts, 6, "voltage_min", "The smallest voltage so far, or that may be.";
    "voltage_min_design", Volts, 6, "voltage_min_design", "The smallest voltage as it was designed.";
    "voltage_now", Volts, 6, "voltage_volt", "Voltage now.";
    "voltage_ocv", Volts, 6, "voltage_ocv", "Voltage without a load.";
    "charge_control_limit", Amperes, 6, "charge_control_limit", "Limit that the system has set for charging.";
    "charge_control_limit_max", Amperes, 6, "charge_control_limit_max", "The largest such limit.";
    "charge_counter", Count, 6, "charge_counter", "Charge that has gone in, without what has gone out, in ampere hours.";
    "charge_empty", Count, 6, "charge_empty", "Charge at which the battery counts as empty, in ampere hours.";
    "charge_empty_design", Count, 6, "charge_empty_design", "The same as it was designed, in ampere hours.";
    "charge_full", Count, 6, "charge_full", "Charge of the full battery, in ampere hours.";
    "charge_full_design", Count, 6, "charge_full_design", "Charge of the full battery as it was designed, in ampere hours.";
    "charge_now", Count, 6, "charge_ampere", "Charge of the battery, in ampere hours.";
    "charge_term_current", Amperes, 6, "charge_term_current", "Current at which charging ends.";
    "constant_charge_current", Amperes, 6, "constant_charge_current", "Current with which the battery is charged.";
    "constant_charge_current_max", Amperes, 6, "constant_charge_current_max", "The largest such current.";
    "constant_charge_voltage", Volts, 6, "constant_charge_voltage", "Voltage with which the battery is charged.";
    "constant_charge_voltage_max", Volts, 6, "constant_charge_voltage_max", "The largest such voltage.";
    "precharge_current", Amperes, 6, "precharge_current", "Current with which an empty battery is charged first.";
    "input_current_limit", Amperes, 6, "input_current_limit", "Limit of the current that is taken from outside.";
    "power_now", Watts, 6, "power_watt", "Power that goes in or out.";
    "temp", Celsius, 1, "temp_celsius", "Temperature.";
    "temp_alert_max", Celsius, 1, "temp_alert_max_celsius", "Temperature above which the kernel tells of it.";
    "temp_alert_min", Celsius, 1, "temp_alert_min_celsius", "Temperature below which the kernel tells of it.";
    "temp_ambient", Celsius, 1, "temp_ambient_celsius", "Temperature around it.";
    "temp_ambient_max", Celsius, 1, "temp_ambient_max_celsius", "The highest temperature around it that may be.";
    "temp_ambient_min", Celsius, 1, "temp_ambient_min_celsius", "The lowest temperature around it that may be.";
    "temp_max", Celsius, 1, "temp_max_celsius", "The highest temperature that may be.";
    "temp_min", Celsius, 1, "temp_min_celsius", "The lowest temperature that may be.";
};

static INFO: &[Entry] = &[info(
    "power_supply.info",
    "capacity_level, charge_type, health, manufacturer, model_name, serial_number, status, technology, \
         type, usb_type, scope",
    "node_power_supply_info",
    "Kind, maker and state of the supply.",
)
.every(SURVEY_PERIOD)];
