// Answers queries with Prometheus' own engine, for comparison. The first argument is a file in the notation of
// Prometheus' tests (`load …`). Each line of the standard input is a query: START<tab>END<tab>STEP<tab>QUERY, in
// milliseconds; a step of 0 asks for one instant. Each answer is lines: E (an error) or S and V (series and values),
// W and I (warnings and infos), F (the query, written evenly, in JSON), and a dot.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// load reads lines such as `name{label="value"} TIME:BITS TIME:BITS`, with a double's bits in hexadecimal.
func load(path string, db *tsdb.DB) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	p := parser.NewParser(parser.Options{})
	app := db.Appender(context.Background())
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		name, samples, _ := strings.Cut(line, "\t")
		metric, err := p.ParseMetric(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var ref storage.SeriesRef
		for _, sample := range strings.Fields(samples) {
			t, v, _ := strings.Cut(sample, ":")
			at, err := strconv.ParseInt(t, 10, 64)
			if err != nil {
				return err
			}
			bits, err := strconv.ParseUint(v, 16, 64)
			if err != nil {
				return err
			}
			if ref, err = app.Append(ref, metric, at, math.Float64frombits(bits)); err != nil {
				return err
			}
		}
	}
	return app.Commit()
}

func text(l labels.Labels) string {
	b, _ := json.Marshal(l.Map())
	return string(b)
}

func values(out *bufio.Writer, l labels.Labels, points []promql.FPoint) {
	fmt.Fprintf(out, "S%s\n", text(l))
	for _, p := range points {
		fmt.Fprintf(out, "V%d:%016x\n", p.T, math.Float64bits(p.F))
	}
}

func main() {
	folder, err := os.MkdirTemp("", "beside")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	options := tsdb.DefaultOptions()
	options.OutOfOrderTimeWindow = math.MaxInt64 / 4
	db, err := tsdb.Open(folder, nil, nil, options, nil)
	if err != nil {
		panic(err)
	}
	if err := load(os.Args[1], db); err != nil {
		panic(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples:               50_000_000,
		Timeout:                  time.Minute,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
	})
	p := parser.NewParser(parser.Options{})
	out := bufio.NewWriter(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), "\t", 4)
		start, _ := strconv.ParseInt(parts[0], 10, 64)
		end, _ := strconv.ParseInt(parts[1], 10, 64)
		step, _ := strconv.ParseInt(parts[2], 10, 64)
		if expr, err := p.ParseExpr(parts[3]); err == nil {
			formatted, _ := json.Marshal(parser.Prettify(expr))
			fmt.Fprintf(out, "F%s\n", formatted)
		}
		ctx := context.Background()
		var query promql.Query
		if step == 0 {
			query, err = engine.NewInstantQuery(ctx, db, nil, parts[3], time.UnixMilli(start))
		} else {
			query, err = engine.NewRangeQuery(ctx, db, nil, parts[3], time.UnixMilli(start), time.UnixMilli(end), time.Duration(step)*time.Millisecond)
		}
		if err != nil {
			fmt.Fprintf(out, "E%q\n.\n", err.Error())
			out.Flush()
			continue
		}
		result := query.Exec(ctx)
		if result.Err != nil {
			fmt.Fprintf(out, "E%q\n.\n", result.Err.Error())
			out.Flush()
			continue
		}
		switch value := result.Value.(type) {
		case promql.Vector:
			for _, s := range value {
				values(out, s.Metric, []promql.FPoint{{T: s.T, F: s.F}})
			}
		case promql.Matrix:
			for _, s := range value {
				values(out, s.Metric, s.Floats)
			}
		case promql.Scalar:
			values(out, labels.EmptyLabels(), []promql.FPoint{{T: value.T, F: value.V}})
		case promql.String:
			fmt.Fprintf(out, "T%q\n", value.V)
		}
		warnings, infos := result.Warnings.AsStrings(parts[3], 10, 10)
		for _, w := range warnings {
			fmt.Fprintf(out, "W%s\n", w)
		}
		for _, i := range infos {
			fmt.Fprintf(out, "I%s\n", i)
		}
		fmt.Fprintln(out, ".")
		out.Flush()
		query.Close()
	}
}
