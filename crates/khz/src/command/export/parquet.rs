//! `khz export --parquet`: the rows as columns, with the names of the CSV columns. Numbers are exact: whole ones are
//! unsigned integers, others decimals. A value that is not present is null.

use std::fs::File;
use std::sync::Arc;

use khz_model::{Nanos, Series};
use parquet::basic::{Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

use super::rows::{Columns, Line, each_row};
use crate::command::recording::Opened;
use crate::show::outcome::{Failure, sentence};

/// Values in memory before they are written as a row group: 8 MiB, and 2 MiB for which of them are present.
const GROUP_VALUES: usize = 1 << 20;
/// Rows of a group at most; readers skip groups, and take them in parallel.
const GROUP_ROWS: usize = 1 << 18;
/// Digits of a decimal in 64 bits.
const DIGITS: i32 = 18;
/// Decimal places of `boot`.
const NANO_PLACES: u8 = 9;

/// Writes all of it.
pub fn write(opened: &Opened, file: File) -> Result<(), Failure> {
    let columns = Columns::of(opened);
    let mut table = Table::new(&columns.series, file).map_err(of_parquet)?;
    each_row(opened, &columns, |line| table.row(line).map_err(of_parquet))?;
    let unfit = table.close().map_err(of_parquet)?;
    if unfit > 0 {
        crate::show::table::remark!("{unfit} values have more than {DIGITS} digits and are null");
    }
    Ok(())
}

fn of_parquet(error: ParquetError) -> Failure {
    Failure::work(format!("cannot write Parquet: {}", sentence(&error)))
}

/// The file, and the rows of the group that is not yet in it.
struct Table {
    writer: SerializedFileWriter<File>,
    rows_max: usize,
    time: Vec<i64>,
    boot: Vec<i64>,
    node: Vec<ByteArray>,
    /// The name of the node that came last: rows of a node follow each other.
    named: ByteArray,
    columns: Vec<Column>,
    /// Values that no column could hold.
    unfit: u64,
}

/// The numbers of one series, and for every row whether it has one.
struct Column {
    places: u8,
    values: Vec<i64>,
    present: Vec<i16>,
}

impl Table {
    fn new(series: &[Series], file: File) -> Result<Self, ParquetError> {
        let mut fields = vec![
            int64("time", LogicalType::timestamp(true, TimeUnit::NANOS), Repetition::REQUIRED, None)?,
            int64("boot", decimal(NANO_PLACES), Repetition::REQUIRED, Some(NANO_PLACES))?,
            Type::primitive_type_builder("node", Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .with_repetition(Repetition::REQUIRED)
                .build()?,
        ];
        let mut columns = Vec::new();
        for series in series {
            let (name, places) = (series.to_string(), series.metric.places);
            fields.push(match places {
                0 => int64(&name, LogicalType::integer(64, false), Repetition::OPTIONAL, None)?,
                places => int64(&name, decimal(places), Repetition::OPTIONAL, Some(places))?,
            });
            columns.push(Column { places, values: Vec::new(), present: Vec::new() });
        }
        let fields = fields.into_iter().map(Arc::new).collect();
        let schema = Type::group_type_builder("khz").with_fields(fields).build()?;
        // Differences of integers, packed: what a compressor would do to them, and cheaper. Names are a dictionary.
        let properties = WriterProperties::builder()
            .set_created_by(format!("khz {}", env!("CARGO_PKG_VERSION")))
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BINARY_PACKED)
            .set_column_encoding(ColumnPath::from("node"), Encoding::PLAIN)
            .set_column_dictionary_enabled(ColumnPath::from("node"), true)
            .build();
        Ok(Table {
            writer: SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?,
            rows_max: (GROUP_VALUES / (columns.len() + 3)).clamp(1, GROUP_ROWS),
            time: Vec::new(),
            boot: Vec::new(),
            node: Vec::new(),
            named: ByteArray::from(""),
            columns,
            unfit: 0,
        })
    }

    fn row(&mut self, line: &Line<'_>) -> Result<(), ParquetError> {
        let stamp = line.stamp();
        self.time.push(signed(stamp.real()));
        self.boot.push(signed(stamp.boot));
        if self.named.data() != line.node().as_bytes() {
            self.named = ByteArray::from(line.node());
        }
        self.node.push(self.named.clone());
        for (column, value, places) in line.values() {
            self.unfit += u64::from(!self.columns[column].put(value, places, self.time.len()));
        }
        match self.time.len() == self.rows_max {
            true => self.end_group(),
            false => Ok(()),
        }
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        let rows = self.time.len();
        let mut group = self.writer.next_row_group()?;
        numbers(next(&mut group)?, &self.time, None)?;
        numbers(next(&mut group)?, &self.boot, None)?;
        let mut names = next(&mut group)?;
        names.typed::<ByteArrayType>().write_batch(&self.node, None, None)?;
        names.close()?;
        for column in &mut self.columns {
            column.present.resize(rows, 0);
            numbers(next(&mut group)?, &column.values, Some(&column.present))?;
            column.values.clear();
            column.present.clear();
        }
        group.close()?;
        self.time.clear();
        self.boot.clear();
        self.node.clear();
        Ok(())
    }

    /// The end; how many values no column could hold.
    fn close(mut self) -> Result<u64, ParquetError> {
        if !self.time.is_empty() {
            self.end_group()?;
        }
        self.writer.close()?;
        Ok(self.unfit)
    }
}

impl Column {
    /// Puts a value into row number `rows` of the group; `false`: it cannot be written exactly, and is null.
    fn put(&mut self, value: u64, places: u8, rows: usize) -> bool {
        // A schema that names a series twice: the first counts.
        if self.present.len() == rows {
            return true;
        }
        self.present.resize(rows - 1, 0);
        let value = exact(value, places, self.places);
        self.present.push(i16::from(value.is_some()));
        self.values.extend(value);
        value.is_some()
    }
}

/// The value in steps of the column: integers use all 64 bits, decimals have 18 digits.
fn exact(value: u64, places: u8, column_places: u8) -> Option<i64> {
    let step = 10u64.checked_pow(u32::from(places.abs_diff(column_places)))?;
    let value = match places <= column_places {
        true => value.checked_mul(step)?,
        false => value.is_multiple_of(step).then_some(value / step)?,
    };
    let fits = column_places == 0 || value < 10u64.pow(DIGITS.unsigned_abs());
    fits.then_some(value.cast_signed())
}

/// Signed nanoseconds of 64 bits end in the year 2262.
fn signed(time: Nanos) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

fn decimal(places: u8) -> LogicalType {
    LogicalType::decimal(i32::from(places), DIGITS)
}

fn int64(
    name: &str,
    logical: LogicalType,
    repetition: Repetition,
    places: Option<u8>,
) -> Result<Type, ParquetError> {
    let column = Type::primitive_type_builder(name, Physical::INT64)
        .with_logical_type(Some(logical))
        .with_repetition(repetition);
    match places {
        Some(places) => column.with_precision(DIGITS).with_scale(i32::from(places)).build(),
        None => column.build(),
    }
}

fn next<'a>(
    group: &'a mut SerializedRowGroupWriter<'_, File>,
) -> Result<SerializedColumnWriter<'a>, ParquetError> {
    group.next_column()?.ok_or_else(|| ParquetError::General("BUG: a column too few".into()))
}

fn numbers(
    mut column: SerializedColumnWriter<'_>,
    values: &[i64],
    present: Option<&[i16]>,
) -> Result<(), ParquetError> {
    column.typed::<Int64Type>().write_batch(values, present, None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_exact_or_unknown() {
        assert_eq!(exact(u64::MAX, 0, 0), Some(-1), "an unsigned integer of 64 bits");
        assert_eq!(exact(52, 2, 2), Some(52));
        assert_eq!(exact(52, 2, 3), Some(520));
        assert_eq!((exact(50, 2, 1), exact(52, 2, 1)), (Some(5), None));
        assert_eq!(exact(999_999_999_999_999_999, 9, 9), Some(999_999_999_999_999_999));
        assert_eq!((exact(1_000_000_000_000_000_000, 9, 9), exact(u64::MAX, 0, 2)), (None, None));
    }
}
