//! The rrdtool commands as a program of their own, for tests; the product calls the same function.

fn main() {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    std::process::exit(khz_rrd::cli::run(&arguments));
}
