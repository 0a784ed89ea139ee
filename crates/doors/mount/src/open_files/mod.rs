//! What is open: handles and budgets, files of values and their pages in the page cache, first reads of texts, polls, values
//! whose length was told.

pub(crate) mod first_reads;
pub(crate) mod handles;
mod page;
pub(crate) mod polls;
pub(crate) mod told_values;
pub(crate) mod value_file;
pub(crate) mod value_files;
