package dev.kilohertz;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/** A part of the answer of /khz/v1/range: a series with readings or points. */
final class RangeDecoder {
    private String node = "";
    private String step = "";
    private final AnswerDecoder.SeriesFields fields = new AnswerDecoder.SeriesFields();
    private final List<RangePart.PastReading> rows = new ArrayList<>();
    private final List<RangePart.Point> points = new ArrayList<>();

    /** Takes a field of the object, which has begun. */
    void take(String key, JsonReader json) {
        switch (key) {
            case "node" -> node = json.text();
            case "step" -> step = json.text();
            case "rows" -> {
                json.beginArray();
                while (json.more()) {
                    rows.add(row(json));
                }
            }
            case "points" -> {
                json.beginArray();
                while (json.more()) {
                    points.add(point(json));
                }
            }
            default -> {
                if (!fields.take(key, json)) {
                    json.skip();
                }
            }
        }
    }

    RangePart part() {
        return new RangePart(node, fields.series(), step, rows, points);
    }

    private static RangePart.PastReading row(JsonReader json) {
        json.beginArray();
        expectMore(json);
        Instant time = AnswerDecoder.time(json);
        expectMore(json);
        long boot = Seconds.nanos(json.text());
        expectMore(json);
        Reading reading = AnswerDecoder.reading(json);
        while (json.more()) {
            json.skip();
        }
        return new RangePart.PastReading(time, boot, reading);
    }

    private static void expectMore(JsonReader json) {
        if (!json.more()) {
            throw new MalformedException("a row of the past has less than two times and a reading: does a khz answer at this address?");
        }
    }

    private static RangePart.Point point(JsonReader json) {
        Instant time = Instant.EPOCH;
        long count = 0;
        Reading first = null;
        Reading last = null;
        Reading lowest = null;
        Reading highest = null;
        Reading sum = null;
        long resets = 0;
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "t" -> time = AnswerDecoder.time(json);
                case "count" -> count = json.number();
                case "first" -> first = AnswerDecoder.reading(json);
                case "last" -> last = AnswerDecoder.reading(json);
                case "lowest" -> lowest = AnswerDecoder.reading(json);
                case "highest" -> highest = AnswerDecoder.reading(json);
                case "sum" -> sum = AnswerDecoder.reading(json);
                case "resets" -> resets = json.number();
                default -> json.skip();
            }
        }
        return new RangePart.Point(time, count, first, last, lowest, highest, sum, resets);
    }
}
