//! `/sys/class/dmi/id`: what the firmware says about itself, the board, the chassis and the product. Serial numbers are
//! readable by root alone. Virtual machines and other architectures may have no such folder.

use crate::description::parse;
use crate::entry::{Entry, info};
use crate::kernel_file::{KernelFile, Pieces, ValueFile};

/// The folder.
pub static FILE: KernelFile = KernelFile {
    name: "dmi",
    path: "sys/class/dmi/id",
    only_base: false,
    pieces: Pieces::Folder(&[
        same("bios_date"),
        same("bios_release"),
        same("bios_vendor"),
        same("bios_version"),
        same("board_asset_tag"),
        same("board_name"),
        same("board_serial"),
        same("board_vendor"),
        same("board_version"),
        same("chassis_asset_tag"),
        same("chassis_serial"),
        same("chassis_vendor"),
        same("chassis_version"),
        same("product_family"),
        same("product_name"),
        same("product_serial"),
        same("product_sku"),
        same("product_uuid"),
        same("product_version"),
        ValueFile { file: "sys_vendor", label: "system_vendor" },
    ]),
    scalars: SCALARS,
    groups: &[],
    parse,
};

/// A file whose label has its name.
const fn same(file: &'static str) -> ValueFile {
    ValueFile { file, label: file }
}

static SCALARS: &[Entry] = &[info(
    "host.dmi",
    "the files' names; sys_vendor is system_vendor",
    "node_dmi_info",
    "What the firmware says about itself, board, chassis and product; serial numbers only if the agent may read them.",
)
.constant()];
