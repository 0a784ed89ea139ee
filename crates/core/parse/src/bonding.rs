//! `/sys/class/net/*/bonding`: how many interfaces each bond is made of, and how many of them have a link.

use khz_model::Unit;

use crate::entry::{Entry, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part, Words};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "bonding",
    path: "sys/class/net/bonding_masters",
    pieces: Pieces::Survey { subject: Subject::Tree("bonding"), captured: "survey/bonding" },
    only_base: true,
    scalars: &[],
    groups: &[BOND],
    parse,
};

const BOND: Group = Group {
    label: "master",
    entries: PER_BOND,
    branch: Some(Branch {
        folders: "sys/class/net",
        name: &[Part::Word],
        words: Words::Of("bonding_masters"),
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

/// Each of a bond's interfaces is a link `lower_NAME` in its folder; before Linux 3.13, `slave_NAME`.
const LINKS: &str = "#/*_*/bonding_slave/mii_status";

static PER_BOND: &[Entry] = &[
    gauge("bonding.interfaces", LINKS, Unit::Count, "Interfaces that the bond is made of.")
        .form(Form::CountOf(&[]))
        .every(SURVEY_PERIOD)
        .exposed("node_bonding_slaves", &[]),
    gauge("bonding.up", LINKS, Unit::Count, "Interfaces of the bond that have a link.")
        .form(Form::CountOf(&["up"]))
        .every(SURVEY_PERIOD)
        .exposed("node_bonding_active", &[]),
];
