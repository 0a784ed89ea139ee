//! Instances in the schema's records, with their labels.

use khz_model::labels::{LABEL_NAME_MAX, LABELS_BYTES_MAX};
use khz_model::{Instance, Labels};

use super::INSTANCE_BYTES_MAX;
use super::fields::{Fields, put_text};
use crate::{BlockError, varint};

/// The most labels of a set, whether they fit one or not: more are damage.
const COUNT_MAX: usize = khz_model::labels::LABELS_MAX;

/// Appends the number of labels, and each with its value.
pub(super) fn put<'a>(out: &mut Vec<u8>, labels: impl Iterator<Item = (&'a str, &'a str)> + Clone) {
    varint::put(out, labels.clone().count() as u64);
    for (name, value) in labels {
        put_text(out, name);
        put_text(out, value);
    }
}

/// Reads what [`put`] has written.
pub(super) fn read(fields: &mut Fields) -> Result<Labels, BlockError> {
    let count = fields.number()?;
    let count = fields.within(count, COUNT_MAX, "labels of a series")?;
    let mut labels = Vec::with_capacity(count);
    for _ in 0..count {
        let name = fields.text(LABEL_NAME_MAX, "bytes in the name of a label")?;
        labels.push((name, fields.text(LABELS_BYTES_MAX, "bytes in the value of a label")?));
    }
    Labels::new(labels)
        .map_err(|_| fields.damaged("labels that are no set: a name is twice, no name, or they are too long"))
}

/// Appends an instance. Without labels it is one text. With labels it is the text that an older reader
/// shows, which may be cut; then the primary name; then the labels.
pub(super) fn put_instance(out: &mut Vec<u8>, instance: &Instance) {
    if !instance.has_labels() {
        return put_text(out, instance.name());
    }
    let shown = shown_to_older(instance);
    put_text(out, &shown);
    put_text(out, instance.name());
    put(out, instance.labels());
}

/// The instance as one name: `mlx5_0,port=1`.
fn shown_to_older(instance: &Instance) -> String {
    let name = Some(instance.name().to_owned()).filter(|name| !name.is_empty());
    let labels = instance.labels().map(|(name, value)| format!("{name}={value}"));
    let mut shown = name.into_iter().chain(labels).collect::<Vec<_>>().join(",");
    shown.truncate(shown.floor_char_boundary(INSTANCE_BYTES_MAX));
    shown
}

/// Reads what [`put_instance`] has written.
pub(super) fn read_instance(fields: &mut Fields) -> Result<Instance, BlockError> {
    let shown = fields.text(INSTANCE_BYTES_MAX, "bytes in an instance")?;
    if fields.is_empty() {
        return named(shown, fields);
    }
    let name = fields.text(INSTANCE_BYTES_MAX, "bytes in an instance")?;
    let instance = named(name, fields)?;
    Ok(instance.with_labels(&read(fields)?))
}

/// An instance with exactly this text. It may exceed the kernel's own limit: a byte that is not text takes four
/// bytes (`\xFF`).
fn named(text: &str, fields: &Fields) -> Result<Instance, BlockError> {
    Instance::from_text(text).ok_or_else(|| fields.damaged("no instance can have that name"))
}
