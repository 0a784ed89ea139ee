package dev.kilohertz;

/**
 * What a khz says when it refuses.
 *
 * @param sentence why, and what to do; null: another program answers, or this is no refusal
 * @param shown the pattern with a caret; null: it is about something else
 */
record Refusal(String sentence, String shown) {
    private static final Refusal NONE = new Refusal(null, null);

    /** Reads a body of any kind. */
    static Refusal read(byte[] body) {
        if (body.length == 0 || body[0] != '{') {
            return NONE;
        }
        try {
            return decode(new JsonReader(body, 0, body.length));
        } catch (MalformedException e) {
            // The status says more than where its body breaks off.
            return NONE;
        }
    }

    private static Refusal decode(JsonReader json) {
        String sentence = null;
        String shown = null;
        json.beginObject();
        for (String key = json.key(); key != null; key = json.key()) {
            switch (key) {
                case "error" -> sentence = json.textOrNull();
                case "shown" -> shown = json.textOrNull();
                default -> json.skip();
            }
        }
        return new Refusal(sentence, shown);
    }
}
