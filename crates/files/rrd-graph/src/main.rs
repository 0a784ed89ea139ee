//! rrdtool's commands with `graph` and `graphv` as a program of their own, for tests; the product calls the same function.

fn main() {
    let words = khz_rrd::text::words(std::env::args_os().skip(1));
    std::process::exit(khz_rrd::cli::run(&words, &khz_rrd_graph::COMMANDS));
}
