package dev.kilohertz;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/** The answer of /khz/v1/query. */
final class NowDecoder {
    private NowDecoder() {}

    static Now decode(JsonReader json) {
        List<Sample> samples = new ArrayList<>();
        List<String> missing = List.of();
        Misses misses = Misses.NONE;
        boolean hasNodes = false;
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "nodes" -> {
                    hasNodes = true;
                    json.beginArray();
                    while (json.more()) {
                        node(json, samples);
                    }
                }
                case "missing" -> missing = AnswerDecoder.texts(json);
                case "misses" -> misses = AnswerDecoder.misses(json);
                default -> json.skip();
            }
        }
        json.end();
        AnswerDecoder.checkHas(hasNodes, "nodes");
        return new Now(samples, missing, misses);
    }

    private static void node(JsonReader json, List<Sample> samples) {
        String node = "";
        List<Sample> own = new ArrayList<>();
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "node" -> node = json.text();
                case "series" -> {
                    json.beginArray();
                    while (json.more()) {
                        own.add(sample(json, node));
                    }
                }
                default -> json.skip();
            }
        }
        for (Sample sample : own) {
            // The name may stand after the series.
            samples.add(new Sample(node, sample.name(), sample.unit(), sample.kind(), sample.reading(), sample.time()));
        }
    }

    private static Sample sample(JsonReader json, String node) {
        AnswerDecoder.SeriesFields fields = new AnswerDecoder.SeriesFields();
        Reading reading = new Reading.Absent("a newer version of khz says why");
        Instant time = Instant.EPOCH;
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "stamp" -> time = AnswerDecoder.time(json);
                case "value" -> reading = AnswerDecoder.value(json.text());
                case "info" -> reading = new Reading.Labels(AnswerDecoder.labels(json));
                case "absent" -> reading = new Reading.Absent(json.text());
                case "failed" -> reading = new Reading.Failed(json.text());
                default -> {
                    if (!fields.take(key, json)) {
                        json.skip();
                    }
                }
            }
        }
        return new Sample(node, fields.name(), fields.unit, fields.kind, reading, time);
    }
}
