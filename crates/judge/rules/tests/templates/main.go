// Expands templates of alerts with Prometheus' own package, for comparison. Each line of the standard input is a JSON object;
// each answer is one: whether the template parses, its text, whether it fails.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

type question struct {
	Text   string            `json:"text"`
	Labels map[string]string `json:"labels"`
	Bits   string            `json:"bits"`
	Now    int64             `json:"now"`
}

type answer struct {
	Parses bool   `json:"parses"`
	Fails  bool   `json:"fails"`
	Text   string `json:"text"`
	Error  string `json:"error"`
}

func query(_ context.Context, text string, _ time.Time) (promql.Vector, error) {
	sample := func(a, b string, value float64) promql.Sample {
		return promql.Sample{Metric: labels.FromStrings("__name__", "m", "a", a, "b", b), F: value}
	}
	switch text {
	case "one":
		return promql.Vector{sample("x", "1", 1.5)}, nil
	case "three":
		return promql.Vector{sample("z", "1", 3e6), sample("x", "2", -1), sample("y", "3", 0)}, nil
	case "none":
		return promql.Vector{}, nil
	}
	return nil, fmt.Errorf("no such query")
}

func main() {
	defs := "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
	external, _ := url.Parse("http://hub.example:7070/khz?x=y")
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			panic(err)
		}
		bits, _ := strconv.ParseUint(q.Bits, 16, 64)
		value := promql.Sample{F: math.Float64frombits(bits)}
		data := template.AlertTemplateData(q.Labels, map[string]string{"site": "south", "zone": "z<1>"}, external.String(), value)
		expander := template.NewTemplateExpander(context.Background(), defs+q.Text, "t", data, model.Time(q.Now), query, external, nil)
		var a answer
		if err := expander.ParseTest(); err != nil {
			a.Error = err.Error()
		} else {
			a.Parses = true
			text, err := expander.Expand()
			a.Text = text
			if err != nil {
				a.Fails, a.Error = true, err.Error()
			}
		}
		out.Encode(a)
	}
}
