//! Recordings as Parquet: column by column they hold the values of the CSV, also for readers other than ours.

use crate::process::{code, err, out, run};
use crate::record::{folder, word, workload};

#[cfg(not(feature = "parquet"))]
#[test]
fn without_parquet_the_program_says_how_to_get_it() {
    let path = folder("no-parquet").join("run.parquet");
    let output = run(&["export", &workload("idle"), "--parquet", "-o", word(&path)]);
    assert_eq!((code(&output), out(&output).as_str()), (2, ""));
    assert!(err(&output).contains("--features parquet"), "{}", err(&output));
    assert!(!path.exists());
}

#[cfg(feature = "parquet")]
mod with_parquet {
    use std::fs::File;
    use std::path::Path;
    use std::process::Command;

    use ::parquet::basic::LogicalType;
    use ::parquet::column::reader::get_typed_column_reader;
    use ::parquet::data_type::{ByteArrayType, DataType, Int64Type};
    use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
    use khz_model::Decimal;

    use super::*;

    /// All rows of a column of a group; `None` is null.
    fn values<T: DataType>(group: &dyn RowGroupReader, column: usize) -> Vec<Option<T::T>> {
        let mut reader = get_typed_column_reader::<T>(group.get_column_reader(column).unwrap());
        let rows = group.metadata().num_rows() as usize;
        let is_optional = group.metadata().column(column).column_descr().max_def_level() > 0;
        let (mut present, mut values) = (Vec::new(), Vec::new());
        while reader.read_records(rows, is_optional.then_some(&mut present), None, &mut values).unwrap().0 > 0
        {
        }
        let mut values = values.into_iter();
        if !is_optional {
            return values.map(Some).collect();
        }
        present.into_iter().map(|is_present| (is_present > 0).then(|| values.next().unwrap())).collect()
    }

    /// The cells of a column as CSV writes them.
    fn cells(group: &dyn RowGroupReader, column: usize) -> Vec<String> {
        let description = group.metadata().column(column).column_descr_ptr();
        let places = match description.logical_type_ref() {
            Some(LogicalType::Timestamp(_)) => 9,
            Some(LogicalType::Integer(kind)) if !kind.is_signed => 0,
            Some(LogicalType::Decimal(kind)) => kind.scale as u8,
            Some(LogicalType::String) => {
                let names = values::<ByteArrayType>(group, column).into_iter();
                return names.map(|name| name.unwrap().as_utf8().unwrap().to_owned()).collect();
            }
            other => panic!("{other:?} in {}", description.name()),
        };
        let text = |value: i64| Decimal::new(value.cast_unsigned(), places).to_string();
        values::<Int64Type>(group, column)
            .into_iter()
            .map(|value| value.map_or(String::new(), text))
            .collect()
    }

    /// The file as CSV writes it, and how many groups of rows it has.
    fn as_csv(path: &Path) -> (Vec<String>, usize) {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let titles: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
        let mut lines = vec![titles.join(",")];
        for number in 0..reader.num_row_groups() {
            let group = reader.get_row_group(number).unwrap();
            let columns: Vec<Vec<String>> = (0..titles.len()).map(|column| cells(&*group, column)).collect();
            for row in 0..columns[0].len() {
                let line: Vec<&str> = columns.iter().map(|column| column[row].as_str()).collect();
                lines.push(line.join(","));
            }
        }
        (lines, reader.num_row_groups())
    }

    #[test]
    fn parquet_holds_what_csv_says() {
        let path = folder("parquet").join("run.parquet");
        let base = ["export", &workload("idle"), &workload("compile")];
        // All series, in several groups of rows; and a few, of which one node has no value.
        for (groups_min, more) in
            [(2, &[][..]), (1, &["-m", "idle*:load.*", "-m", "compile*:kernel.forks"][..])]
        {
            let written = run(&[&base[..], more, &["--parquet", "-o", word(&path)]].concat());
            assert_eq!((code(&written), err(&written).as_str()), (0, ""));
            let csv = out(&run(&[&base[..], more].concat())).replace("failed", "");
            let (expected, (read, groups)): (Vec<&str>, _) = (csv.lines().collect(), as_csv(&path));
            assert!(groups >= groups_min, "{groups} groups");
            assert!(expected.len() > 1_000, "{} rows", expected.len());
            assert_eq!(read.len(), expected.len());
            for (row, (read, expected)) in read.iter().zip(expected).enumerate() {
                assert_eq!(read, expected, "row {row}");
            }
        }
    }

    /// Arrow for C++ reads it too, where it is installed.
    #[test]
    fn pyarrow_reads_the_same_numbers() {
        let python = std::env::var("KHZ_PYARROW").unwrap_or_else(|_| "python3".into());
        let has_arrow = Command::new(&python).args(["-c", "import pyarrow.parquet"]).output();
        if !has_arrow.is_ok_and(|output| output.status.success()) {
            return khz_skip::skip("pyarrow is not installed");
        }
        let path = folder("pyarrow").join("run.parquet");
        let source = workload("idle");
        let written = run(&["export", &source, "--parquet", "-o", word(&path)]);
        assert_eq!(code(&written), 0, "{}", err(&written));
        let program = "import sys, pyarrow, pyarrow.parquet\n\
            table = pyarrow.parquet.read_table(sys.argv[1])\n\
            def text(column):\n\
            \x20   if pyarrow.types.is_timestamp(column.type):\n\
            \x20       return ['%d.%09d' % divmod(v, 10**9) for v in column.cast('int64').to_pylist()]\n\
            \x20   return ['' if v is None else format(v, 'f') if hasattr(v, 'as_tuple') else str(v) for v in column.to_pylist()]\n\
            print(','.join(table.column_names))\n\
            for row in zip(*[text(c) for c in table.columns]): print(','.join(row))\n";
        let output = Command::new(&python).args(["-c", program, word(&path)]).output().unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        let csv = out(&run(&["export", &source])).replace("failed", "");
        let read = out(&output);
        assert_eq!(read.lines().count(), csv.lines().count());
        for (row, (read, expected)) in read.lines().zip(csv.lines()).enumerate() {
            assert_eq!(read, expected, "row {row}");
        }
    }
}
