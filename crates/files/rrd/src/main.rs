//! The rrdtool commands as a program of their own, for tests; the product calls the same function.

fn main() {
    std::process::exit(khz_rrd::cli::run(&khz_rrd::text::words(std::env::args_os().skip(1)), &[]));
}
