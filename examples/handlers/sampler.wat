;; An adaptive sampler: sends the first series of a row when it has moved by more than 1 % since it was sent, and otherwise every
;; hundredth row. This is the text form of WebAssembly: `wat2wasm sampler.wat` (Debian's package wabt) makes sampler.wasm of it.
(module
  (import "khz" "output" (func $output (param i32 i32) (result i32)))
  (import "khz" "put" (func $put (param i32 f64)))
  (memory (export "memory") 1)
  ;; struct khz_room: where the values and the states are, and room for one series.
  (data (i32.const 0) "\40\00\00\00\48\00\00\00\01\00\00\00")
  (data (i32.const 128) "value")
  (global $sent (mut f64) (f64.const nan))
  (global $rows (mut i32) (i32.const 0))
  (func (export "khz_version") (result i32) (i32.const 1))
  (func (export "khz_room") (result i32) (i32.const 0))
  (func (export "khz_begin") (param $series i32) (result i32)
    (drop (call $output (i32.const 128) (i32.const 5)))
    (global.set $sent (f64.const nan))
    (i32.eqz (local.get $series)))
  (func (export "khz_row") (result i32)
    (local $value f64)
    ;; No value, no row.
    (if (i32.load8_u (i32.const 72)) (then (return (i32.const 0))))
    (local.set $value (f64.load (i32.const 64)))
    (global.set $rows (i32.add (global.get $rows) (i32.const 1)))
    ;; It has hardly moved, and the last row is not long ago. (A comparison with NaN is false: the first row is sent.)
    (if (i32.and
          (f64.le
            (f64.abs (f64.sub (local.get $value) (global.get $sent)))
            (f64.mul (f64.abs (global.get $sent)) (f64.const 0.01)))
          (i32.lt_u (global.get $rows) (i32.const 100)))
      (then (return (i32.const 0))))
    (global.set $sent (local.get $value))
    (global.set $rows (i32.const 0))
    (call $put (i32.const 0) (local.get $value))
    (i32.const 1)))
