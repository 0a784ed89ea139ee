package dev.kilohertz;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Flow;
import java.util.function.Function;
import javax.net.ssl.SSLContext;

/**
 * Asks a khz: a hub for the numbers of a cluster, or an agent for those of one machine. Over HTTP, HTTPS, or the local socket of a
 * khz on this machine.
 *
 * <pre>{@code
 * Client hub = Client.connect("http://hub:7070");
 * for (Sample sample : hub.now("node[1-8]:mem.available")) {
 *     System.out.println(sample.node() + " " + sample.reading());
 * }
 * try (EventStream stream = hub.stream(Subscription.of("load.1m").rate("10Hz"))) {
 *     for (Row row : stream.rows()) {
 *         System.out.println(row.node() + " " + row.doubleValue("load.1m"));
 *     }
 * }
 * }</pre>
 *
 * <p>A client holds no connection: it opens one for each request, and a request fails with {@link UnreachableException} while the
 * khz is gone, and works again when it is back. An interrupt of a thread that waits ends the wait with
 * {@link InterruptedWaitException}, in threads of each kind. Several threads may use one client. docs/http.md describes the interface.
 */
public final class Client {
    private static final List<String> SOCKETS = List.of("hub.sock", "khz.sock", "agent.sock");
    private static final Duration CONNECT_MAX = Duration.ofSeconds(5);
    private static final Duration SILENCE_MAX = Duration.ofSeconds(30);
    private static final Duration ANSWER_MAX = Duration.ofMinutes(5);
    /** A khz understands durations of 64 bits in nanoseconds. */
    private static final Duration AGE_MAX = Duration.ofDays(100_000);
    private static final int ANSWER_BYTES_MAX = 64 << 20;

    private final Door door;
    private final int answerBytes;

    private Client(Door door, int answerBytes) {
        this.door = door;
        this.answerBytes = answerBytes;
    }

    /**
     * A client of the khz at an address. Does not connect yet.
     *
     * @param address {@code http://HOST:PORT}, {@code https://HOST:PORT} or {@code unix:/run/khz/hub.sock}; without a port 7070
     * @return the client
     * @throws IllegalArgumentException it is no such address
     */
    public static Client connect(String address) {
        return builder(address).build();
    }

    /**
     * A client of the khz of this machine, over its local socket: a hub's if there is one, else that of {@code khz} or
     * {@code khz agent}. It is looked for in {@code KHZ_RUN_DIR} if the environment has it, else in the usual directories.
     *
     * @return the client
     * @throws UnreachableException none runs here
     * @throws InterruptedWaitException this thread is interrupted
     */
    public static Client local() {
        List<Path> directories = Places.here().runDirectories();
        for (Path directory : directories) {
            for (String name : SOCKETS) {
                if (listens(directory.resolve(name))) {
                    return connect("unix:" + directory.resolve(name));
                }
            }
        }
        throw new UnreachableException("no khz runs on this machine (no socket in " + directories + "): start 'khz', or name one with connect()");
    }

    /** True where a process listens, even one that is stopped and whose queue is full. */
    private static boolean listens(Path socket) {
        try (LocalConnection connection = LocalConnection.open(socket, 1)) {
            return connection.isOpen();
        } catch (SocketTimeoutException e) {
            return true;
        } catch (InterruptedIOException e) {
            throw new InterruptedWaitException("this thread was interrupted before a khz was found on this machine: its interrupt status is still set", e);
        } catch (IOException e) {
            return false;
        }
    }

    /**
     * Begins a client with further settings.
     *
     * @param address as for {@link #connect}
     * @return the settings
     */
    public static Builder builder(String address) {
        return new Builder(address);
    }

    /**
     * The newest readings of series.
     *
     * @param patterns 64 at most, such as {@code node[1-8]:mem.*}; without one, everything. docs/names.md has the grammar
     * @return what nodes sent last, node after node
     * @throws RefusedException a pattern cannot be read, or selects nothing
     * @throws UnreachableException no khz answers
     */
    public Now now(String... patterns) {
        return decoded(query(patterns), NowDecoder::decode);
    }

    /**
     * The newest readings of series, none older than some time: the khz asks nodes whose rows are older, and waits 50 ms at most.
     *
     * @param age how old a row may be; one of a node that does not answer in time may be older, and its time says so
     * @param patterns as for {@link #now(String...)}
     * @return the readings
     * @throws RefusedException a pattern cannot be read, or selects nothing
     * @throws UnreachableException no khz answers
     * @throws IllegalArgumentException the age is below zero, or more than 100,000 days
     */
    public Now now(Duration age, String... patterns) {
        Objects.requireNonNull(age, "age");
        if (age.isNegative() || age.compareTo(AGE_MAX) > 0) {
            throw new IllegalArgumentException("a row cannot be " + age + " old: give a time from zero to " + AGE_MAX.toDays() + " days, such as 100 ms");
        }
        return decoded(query(patterns).add("age", age.toNanos() + "ns"), NowDecoder::decode);
    }

    private static Query query(String... patterns) {
        Query query = new Query("/khz/v1/query");
        Objects.requireNonNull(patterns, "patterns");
        for (String pattern : patterns) {
            query.add("match", Objects.requireNonNull(pattern, "pattern"));
        }
        return query;
    }

    /**
     * Every node and its state.
     *
     * @return the nodes, by name
     * @throws UnreachableException no khz answers
     */
    public List<Node> nodes() {
        return decoded(new Query("/khz/v1/nodes"), NodesDecoder::decode);
    }

    /**
     * Some nodes and their states.
     *
     * @param hostlist which: {@code node[1-8],login*}
     * @return the nodes, by name; none if it selects none
     * @throws RefusedException the hostlist cannot be read
     * @throws UnreachableException no khz answers
     */
    public List<Node> nodes(String hostlist) {
        return decoded(new Query("/khz/v1/nodes").add("nodes", Objects.requireNonNull(hostlist, "hostlist")), NodesDecoder::decode);
    }

    /**
     * The past. The answer is read part after part, so it may be of any length.
     *
     * @param range which part of it
     * @return the parts; close it
     * @throws RefusedException a pattern or time cannot be read, or the time is before all that this khz knows
     * @throws UnreachableException no khz answers
     */
    public RangeStream range(Range range) {
        Objects.requireNonNull(range, "range");
        return new RangeStream(door, door.get(range.url()), answerBytes);
    }

    /**
     * Rows as they come.
     *
     * @param subscription which, how often, and when
     * @return the stream; close it
     * @throws RefusedException a pattern, rate or condition cannot be read, or there are too many readers
     * @throws UnreachableException no khz answers
     */
    public EventStream stream(Subscription subscription) {
        Objects.requireNonNull(subscription, "subscription");
        return new EventStream(door, door.get(subscription.url()), answerBytes);
    }

    /**
     * Rows as they come, for subscribers. Each subscriber opens a stream of its own, in a virtual thread, and gets as many events as it
     * requests. One that requests too few loses rows at the khz ({@link Row#lost}), and none here: nothing is queued.
     *
     * @param subscription which, how often, and when
     * @return the publisher; its errors are those of {@link EventStream#next}, and it never completes by itself
     */
    public Flow.Publisher<Event> publisher(Subscription subscription) {
        return new EventPublisher(this, Objects.requireNonNull(subscription, "subscription"));
    }

    /**
     * Defines a channel: a subscription that has a name at the hub, for any number of readers. It replaces a channel of this name, and
     * its readers go on with the new definition.
     *
     * @param name a small letter, then small letters, digits and {@code _}
     * @param subscription what it brings
     * @throws RefusedException the name or definition cannot be read, or this caller may not change the channel
     * @throws UnreachableException no khz answers
     */
    public void defineChannel(String name, Subscription subscription) {
        Objects.requireNonNull(name, "name");
        Objects.requireNonNull(subscription, "subscription");
        if (subscription.isNamed()) {
            throw new IllegalArgumentException("a channel is defined by Subscription.of(), and not by the name of another");
        }
        finish(door.ask("PUT", Subscription.channelPath(name), subscription.definition().getBytes(StandardCharsets.UTF_8)));
    }

    /**
     * Removes a channel. The streams of its rows end with {@link RefusedException}.
     *
     * @param name the channel
     * @throws RefusedException there is none of this name, others use it, or this caller may not remove it
     * @throws UnreachableException no khz answers
     */
    public void removeChannel(String name) {
        Objects.requireNonNull(name, "name");
        finish(door.ask("DELETE", Subscription.channelPath(name), new byte[0]));
    }

    private void finish(Answer answer) {
        try (answer) {
            answer.skip(answerBytes);
        } catch (IOException e) {
            throw door.gone(e);
        }
    }

    private <T> T decoded(Query query, Function<JsonReader, T> decoder) {
        try (Answer answer = door.get(query.toString())) {
            byte[] body = answer.readNBytes(answerBytes);
            if (body.length == answerBytes) {
                throw new MalformedException("the answer of " + door.address() + " is longer than " + answerBytes
                        + " bytes: select fewer nodes or series, or allow more with answerBytesMax()");
            }
            return decoder.apply(new JsonReader(body, 0, body.length));
        } catch (IOException e) {
            throw door.gone(e);
        }
    }

    /** The address that is asked. */
    @Override
    public String toString() {
        return door.address();
    }

    /** The settings of a client. */
    public static final class Builder {
        private static final Duration TIME_MIN = Duration.ofMillis(1);
        private static final Duration TIME_MAX = Duration.ofMillis(Integer.MAX_VALUE);
        private final String address;
        private String token;
        private SSLContext tls;
        private Duration connectMax = CONNECT_MAX;
        private Duration silenceMax = SILENCE_MAX;
        private Duration answerMax = ANSWER_MAX;
        private int answerBytes = ANSWER_BYTES_MAX;

        private Builder(String address) {
            this.address = Objects.requireNonNull(address, "address");
        }

        /**
         * Shows who asks, where a hub wants to know it (docs/security.md). It is sent only inside TLS, or on this machine.
         *
         * @param text a token, as {@code khz certs token} prints it
         * @return this
         */
        public Builder token(String text) {
            token = Objects.requireNonNull(text, "text").strip();
            return this;
        }

        /**
         * Trusts the authority of the cluster's certificates, and may show a certificate of this program. Without it the JVM's own
         * authorities count.
         *
         * @param context a context with that authority
         * @return this
         */
        public Builder tls(SSLContext context) {
            tls = Objects.requireNonNull(context, "context");
            return this;
        }

        /**
         * Trusts the authority of the cluster's certificates, and no other.
         *
         * @param file {@code ca.pem}, as {@code khz certs init} makes it
         * @return this
         * @throws IllegalArgumentException the file cannot be read, or has no certificate
         */
        public Builder authority(Path file) {
            return tls(Authority.trusted(Objects.requireNonNull(file, "file")));
        }

        /**
         * How long a connection may take.
         *
         * @param time 5 s by default; a millisecond to 24 days
         * @return this
         * @throws IllegalArgumentException the time is none of these
         */
        public Builder connectMax(Duration time) {
            connectMax = positive(time);
            return this;
        }

        /**
         * How long an answer may pause. Streams have heartbeats, and a time of their own.
         *
         * @param time 30 s by default; a millisecond to 24 days
         * @return this
         * @throws IllegalArgumentException the time is none of these
         */
        public Builder silenceMax(Duration time) {
            silenceMax = positive(time);
            return this;
        }

        /**
         * How long reading an answer may take as a whole, or an event of a stream, or a part of a range. A khz that sends a byte now and
         * then is not silent.
         *
         * @param time 5 minutes by default; a millisecond to 24 days
         * @return this
         * @throws IllegalArgumentException the time is none of these
         */
        public Builder answerMax(Duration time) {
            answerMax = positive(time);
            return this;
        }

        /**
         * How long an answer, or an event of a stream, or a part of a range may be in memory.
         *
         * @param bytes 64 MiB by default
         * @return this
         * @throws IllegalArgumentException it is below 1
         */
        public Builder answerBytesMax(int bytes) {
            if (bytes < 1) {
                throw new IllegalArgumentException("an answer has some bytes, and not " + bytes);
            }
            answerBytes = bytes;
            return this;
        }

        /**
         * Makes the client. Does not connect yet.
         *
         * @return the client
         * @throws IllegalArgumentException the address cannot be read, or its port is not between 1 and 65,535
         */
        public Client build() {
            Door.Times times = new Door.Times((int) connectMax.toMillis(), (int) silenceMax.toMillis(), answerMax.toNanos());
            return new Client(Door.at(address, context(), token, times), answerBytes);
        }

        private SSLContext context() {
            try {
                return tls == null ? SSLContext.getDefault() : tls;
            } catch (NoSuchAlgorithmException e) {
                throw new IllegalStateException("this JVM has no TLS", e);
            }
        }

        private static Duration positive(Duration time) {
            Objects.requireNonNull(time, "time");
            // A huge time has more milliseconds than fit into a long.
            if (time.compareTo(TIME_MIN) < 0 || time.compareTo(TIME_MAX) > 0) {
                throw new IllegalArgumentException("a time is a millisecond or more, at most 24 days, and not " + time);
            }
            return time;
        }
    }
}
