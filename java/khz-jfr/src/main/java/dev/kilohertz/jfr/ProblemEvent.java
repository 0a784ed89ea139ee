package dev.kilohertz.jfr;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.Period;
import jdk.jfr.StackTrace;

/** Why there are no other events of the machine. There is none of these while there are. */
@Name("khz.Problem")
@Label("Machine Unknown")
@Description("Why there are no events of the machine")
@Category("Kilohertz")
@Period("10 s")
@StackTrace(false)
final class ProblemEvent extends Event {
    @Label("Problem")
    @Description("What is wrong, and what to do")
    String problem;
}
