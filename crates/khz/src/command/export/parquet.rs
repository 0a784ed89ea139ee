//! `khz export --parquet`: the rows as columns, with the names of the CSV columns. Numbers are exact: whole ones are
//! integers, others decimals; derived ones are doubles, and labels are text. A value that is not present is null.

use std::fs::File;
use std::sync::Arc;

use khz_model::{Nanos, Number, Reading, Series, Value, ValueFormat, ValueType};
use parquet::basic::{Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

use khz_ask::PastPart;

use super::past::PastColumns;
use super::rows::{Columns, each_row};
use crate::command::past::Asked;
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
    each_row(opened, &columns, |line| {
        table.row(line.node(), line.stamp().real(), line.stamp().boot, line.values()).map_err(of_parquet)
    })?;
    end(table)
}

/// Writes what the store has of these columns.
pub fn write_past(asked: &mut Asked, columns: &PastColumns, file: File) -> Result<(), Failure> {
    let series: Vec<Series> = columns.series().map(PastPart::to_series).collect();
    let mut table = Table::new(&series, file).map_err(of_parquet)?;
    while let Some(step) = asked.next_step()? {
        let places = columns.places(&step);
        step.rows(|time, boot, row| {
            let values = row.iter().filter_map(|(part, reading)| {
                let format = step.parts[*part].format;
                let is_value = reading.cell.text().is_some();
                is_value.then_some((places[*part]?, reading.cell.reading(format), format))
            });
            table.row(&step.node, time, boot, values).map_err(of_parquet)
        })?;
    }
    end(table)
}

fn end(table: Table) -> Result<(), Failure> {
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

/// The values of one series, and for every row whether it has one.
struct Column {
    format: ValueFormat,
    values: Values,
    present: Vec<i16>,
}

/// The values of a column, in the type that the file has for them.
enum Values {
    /// Whole numbers and decimals, as steps.
    Steps(Vec<i64>),
    Doubles(Vec<f64>),
    /// Labels.
    Texts(Vec<ByteArray>),
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
        let (mut columns, mut plain) = (Vec::new(), Vec::new());
        for series in series {
            let (name, format) = (series.to_string(), series.metric.format());
            fields.push(field(&name, format)?);
            columns.push(Column { format, values: Values::of(format.value_type), present: Vec::new() });
            plain.extend(
                (!matches!(columns.last(), Some(Column { values: Values::Steps(_), .. }))).then_some(name),
            );
        }
        let fields = fields.into_iter().map(Arc::new).collect();
        let schema = Type::group_type_builder("khz").with_fields(fields).build()?;
        // Differences of integers, packed: what a compressor would do to them, and cheaper. Names are a dictionary.
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("khz {}", env!("CARGO_PKG_VERSION")))
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BINARY_PACKED)
            .set_column_encoding(ColumnPath::from("node"), Encoding::PLAIN)
            .set_column_dictionary_enabled(ColumnPath::from("node"), true);
        for name in plain {
            properties = properties.set_column_encoding(ColumnPath::from(name), Encoding::PLAIN);
        }
        let properties = properties.build();
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

    fn row(
        &mut self,
        node: &str,
        time: Nanos,
        boot: Nanos,
        values: impl Iterator<Item = (usize, Reading, ValueFormat)>,
    ) -> Result<(), ParquetError> {
        self.time.push(signed(time));
        self.boot.push(signed(boot));
        if self.named.data() != node.as_bytes() {
            self.named = ByteArray::from(node);
        }
        self.node.push(self.named.clone());
        for (column, reading, format) in values {
            self.unfit += u64::from(!self.columns[column].put(reading, format, self.time.len()));
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
            column.values.write(next(&mut group)?, &column.present)?;
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
    fn put(&mut self, reading: Reading, format: ValueFormat, rows: usize) -> bool {
        // A schema that names a series twice: the first counts.
        if self.present.len() == rows {
            return true;
        }
        self.present.resize(rows - 1, 0);
        let is_put = self.values.put(reading, format, self.format);
        self.present.push(i16::from(is_put));
        is_put
    }
}

impl Values {
    fn of(value_type: ValueType) -> Self {
        match value_type {
            ValueType::Unsigned | ValueType::Signed => Values::Steps(Vec::new()),
            ValueType::Float => Values::Doubles(Vec::new()),
            ValueType::Labels | ValueType::Unknown => Values::Texts(Vec::new()),
        }
    }

    /// Puts a value; `false`: it cannot be written exactly. Two nodes may publish a series of one name with types of
    /// their own.
    fn put(&mut self, reading: Reading, format: ValueFormat, column: ValueFormat) -> bool {
        match (self, format.value(reading)) {
            (Values::Steps(values), Some(Value::Number(Number::Exact(_)))) => {
                let steps = reading.value().and_then(|bits| format.steps(bits));
                let value = steps.and_then(|(steps, places)| exact(steps, places, column));
                values.extend(value);
                value.is_some()
            }
            (Values::Doubles(values), Some(Value::Number(Number::Double(double)))) => {
                values.push(double);
                true
            }
            (Values::Texts(values), Some(Value::Labels(labels))) => {
                values.push(ByteArray::from(labels.to_string().as_str()));
                true
            }
            _ => false,
        }
    }

    /// Writes them and forgets them.
    fn write(&mut self, mut column: SerializedColumnWriter<'_>, present: &[i16]) -> Result<(), ParquetError> {
        match self {
            Values::Steps(values) => {
                column.typed::<Int64Type>().write_batch(values, Some(present), None)?;
                values.clear();
            }
            Values::Doubles(values) => {
                column.typed::<DoubleType>().write_batch(values, Some(present), None)?;
                values.clear();
            }
            Values::Texts(values) => {
                column.typed::<ByteArrayType>().write_batch(values, Some(present), None)?;
                values.clear();
            }
        }
        column.close()
    }
}

/// The value in steps of the column: integers use all 64 bits, decimals have 18 digits.
fn exact(steps: i128, places: u8, column: ValueFormat) -> Option<i64> {
    let step = 10i128.checked_pow(u32::from(places.abs_diff(column.places)))?;
    let steps = match places <= column.places {
        true => steps.checked_mul(step)?,
        false => (steps % step == 0).then_some(steps / step)?,
    };
    let is_unsigned = column.places == 0 && column.value_type == ValueType::Unsigned;
    match (is_unsigned, column.places) {
        (true, _) => u64::try_from(steps).ok().map(u64::cast_signed),
        (false, 0) => i64::try_from(steps).ok(),
        (false, _) => {
            i64::try_from(steps).ok().filter(|steps| steps.unsigned_abs() < 10u64.pow(DIGITS.unsigned_abs()))
        }
    }
}

/// The column of a series in the file's schema.
fn field(name: &str, ValueFormat { value_type, places }: ValueFormat) -> Result<Type, ParquetError> {
    let optional = Repetition::OPTIONAL;
    match (value_type, places) {
        (ValueType::Unsigned, 0) => int64(name, LogicalType::integer(64, false), optional, None),
        (ValueType::Signed, 0) => int64(name, LogicalType::integer(64, true), optional, None),
        (ValueType::Unsigned | ValueType::Signed, places) => {
            int64(name, decimal(places), optional, Some(places))
        }
        (ValueType::Float, _) => {
            Type::primitive_type_builder(name, Physical::DOUBLE).with_repetition(optional).build()
        }
        (ValueType::Labels | ValueType::Unknown, _) => {
            Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .with_repetition(optional)
                .build()
        }
    }
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
        let whole = |places| ValueFormat { value_type: ValueType::Unsigned, places };
        let signed = |places| ValueFormat { value_type: ValueType::Signed, places };
        let large = i128::from(u64::MAX);
        assert_eq!(exact(large, 0, whole(0)), Some(-1), "an unsigned integer of 64 bits");
        assert_eq!(
            (exact(-1, 0, whole(0)), exact(-1, 0, signed(0)), exact(large, 0, signed(0))),
            (None, Some(-1), None)
        );
        assert_eq!(exact(52, 2, whole(2)), Some(52));
        assert_eq!((exact(52, 2, whole(3)), exact(-52, 2, signed(3))), (Some(520), Some(-520)));
        assert_eq!((exact(50, 2, whole(1)), exact(52, 2, whole(1))), (Some(5), None));
        assert_eq!(exact(999_999_999_999_999_999, 9, whole(9)), Some(999_999_999_999_999_999));
        assert_eq!((exact(1_000_000_000_000_000_000, 9, whole(9)), exact(large, 0, whole(2))), (None, None));
    }
}
