package dev.kilohertz;

import java.util.Collection;

/** What was probably meant with a name that nobody has. */
final class Near {
    /** Longer names are not compared: the cost grows with the square. */
    private static final int LENGTH_MAX = 80;

    private Near() {}

    /** The end of an error, such as " (did you mean mem.free?)"; empty if no name is near. */
    static String hint(String name, Collection<String> known) {
        String best = null;
        // A name of which more than a third is wrong is another one.
        int least = Math.max(1, name.length() / 3) + 1;
        for (String candidate : known) {
            int distance = distance(name, candidate, least);
            if (distance < least) {
                least = distance;
                best = candidate;
            }
        }
        return best == null ? ": list them with series(), or with 'khz catalog'" : " (did you mean " + best + "?)";
    }

    /** How many characters differ; {@code limit} if they are that many or more. */
    private static int distance(String one, String other, int limit) {
        if (one.length() > LENGTH_MAX || Math.abs(one.length() - other.length()) >= limit) {
            return limit;
        }
        int[] row = new int[other.length() + 1];
        for (int j = 0; j < row.length; j++) {
            row[j] = j;
        }
        for (int i = 1; i <= one.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j < row.length; j++) {
                int changed = diagonal + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.min(changed, Math.min(row[j], row[j - 1]) + 1);
            }
        }
        return Math.min(limit, row[other.length()]);
    }
}
