package dev.kilohertz.micrometer;

import io.micrometer.core.instrument.MockClock;
import io.micrometer.core.instrument.step.StepMeterRegistry;
import io.micrometer.core.instrument.step.StepRegistryConfig;
import java.util.concurrent.TimeUnit;

/** A registry of tests that reports the increase of each minute, by a clock that the test sets. */
final class Steps extends StepMeterRegistry {
    private static final StepRegistryConfig CONFIG = new StepRegistryConfig() {
        @Override
        public String prefix() {
            return "steps";
        }

        @Override
        public String get(String key) {
            return null;
        }
    };

    Steps(MockClock clock) {
        super(CONFIG, clock);
    }

    @Override
    protected void publish() {
        // Nobody asks for it.
    }

    @Override
    protected TimeUnit getBaseTimeUnit() {
        return TimeUnit.SECONDS;
    }
}
