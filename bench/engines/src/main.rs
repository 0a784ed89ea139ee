//! The same program in the same interface (docs/handlers.md), by an interpreter (wasmi, `--features interpreter`) and by a compiler
//! (Wasmtime, `--features compiler`): microseconds a row, the start, memory. `engines FILE.wasm` prints one line of each.

use std::time::Instant;

#[cfg(feature = "interpreter")]
use wasmi::{Caller, Config, Engine, Linker, Module, Store, TypedFunc};
#[cfg(feature = "compiler")]
use wasmtime::{Caller, Config, Engine, Linker, Module, Store, TypedFunc};

const SERIES: usize = 100;
const FUEL: u64 = 2_000_000;

struct Instance {
    store: Store<f64>,
    memory: Memory,
    row: TypedFunc<(), i32>,
    /// Where its values and its states begin.
    values: usize,
    states: usize,
}

#[cfg(feature = "compiler")]
use wasmtime::Memory;
#[cfg(feature = "interpreter")]
use wasmi::Memory;

fn config() -> Config {
    let mut config = Config::default();
    config.consume_fuel(true);
    config
}

#[cfg(feature = "interpreter")]
fn engine() -> Engine {
    Engine::new(&config())
}

#[cfg(feature = "compiler")]
fn engine() -> Engine {
    Engine::new(&config()).unwrap()
}

fn start(engine: &Engine, bytes: &[u8]) -> Instance {
    let module = Module::new(engine, bytes).unwrap();
    let mut linker = Linker::<f64>::new(engine);
    let output = |_: Caller<'_, f64>, _: i32, _: i32| -> i32 { 0 };
    linker.func_wrap("khz", "output", output).unwrap();
    linker.func_wrap("khz", "put", |mut caller: Caller<'_, f64>, _: i32, value: f64| *caller.data_mut() += value).unwrap();
    let mut store = Store::new(engine, 0.0);
    store.set_fuel(20_000_000).unwrap();
    #[cfg(feature = "interpreter")]
    let instance = linker.instantiate_and_start(&mut store, &module).unwrap();
    #[cfg(feature = "compiler")]
    let instance = linker.instantiate(&mut store, &module).unwrap();
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    let room = instance.get_typed_func::<(), i32>(&mut store, "khz_room").unwrap();
    let begin = instance.get_typed_func::<i32, i32>(&mut store, "khz_begin").unwrap();
    let row = instance.get_typed_func::<(), i32>(&mut store, "khz_row").unwrap();
    let room = room.call(&mut store, ()).unwrap() as usize;
    let word = |at: usize, store: &Store<f64>| {
        let bytes = &memory.data(store)[room + at..room + at + 4];
        u32::from_le_bytes(bytes.try_into().unwrap()) as usize
    };
    let (values, states) = (word(0, &store), word(4, &store));
    memory.data_mut(&mut store)[room + 12..room + 16].copy_from_slice(&(SERIES as u32).to_le_bytes());
    assert_eq!(begin.call(&mut store, SERIES as i32).unwrap(), 0);
    Instance { store, memory, row, values, states }
}

impl Instance {
    fn row(&mut self, readings: &[f64]) {
        let memory = self.memory.data_mut(&mut self.store);
        for (cell, value) in memory[self.values..][..8 * SERIES].chunks_exact_mut(8).zip(readings) {
            cell.copy_from_slice(&value.to_le_bytes());
        }
        memory[self.states..][..SERIES].fill(0);
        self.store.set_fuel(FUEL).unwrap();
        assert_eq!(self.row.call(&mut self.store, ()).unwrap(), 1);
    }
}

fn rss_kb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    let bytes = std::fs::read(std::env::args().nth(1).expect("a module")).unwrap();
    let before = rss_kb("RssAnon");
    let first = Instant::now();
    let engine = engine();
    let mut instance = start(&engine, &bytes);
    let readings: Vec<f64> = (0..SERIES).map(|at| 3.0 * at as f64).collect();
    instance.row(&readings);
    let first = first.elapsed().as_secs_f64() * 1e3;
    let one = rss_kb("RssAnon");
    let mut rows = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        (0..100_000).for_each(|_| instance.row(&readings));
        rows.push(begun.elapsed().as_secs_f64() * 1e6 / 1e5);
    }
    let starts = (0..50).map(|_| {
        let begun = Instant::now();
        start(&engine, &bytes).row(&readings);
        begun.elapsed().as_secs_f64() * 1e3
    });
    let started = median(starts.collect());
    println!("row_us {:.3}\nfirst_start_ms {first:.3}\nstart_ms {started:.3}", median(rows));
    println!("rss_anon_of_one_kb {}\nrss_anon_peak_kb {}\nrss_file_kb {}", one - before, rss_kb("RssAnon"), rss_kb("RssFile"));
}
