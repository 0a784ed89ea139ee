package dev.kilohertz;

import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Flow;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** Streams for subscribers of {@link Flow}: each has a stream and a thread of its own, which reads only what was requested. */
final class EventPublisher implements Flow.Publisher<Event> {
    private final Client client;
    private final Subscription subscription;

    EventPublisher(Client client, Subscription subscription) {
        this.client = client;
        this.subscription = subscription;
    }

    @Override
    public void subscribe(Flow.Subscriber<? super Event> subscriber) {
        Objects.requireNonNull(subscriber, "subscriber");
        Delivery delivery = new Delivery(client, subscription, subscriber);
        Thread.ofVirtual().name("khz-stream").start(delivery);
    }

    /** Calls one subscriber, from one thread. */
    private static final class Delivery implements Flow.Subscription, Runnable {
        private final Client client;
        private final Subscription subscription;
        private final Flow.Subscriber<? super Event> subscriber;
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition changed = lock.newCondition();
        private long requested;
        private boolean isCancelled;
        private Throwable misuse;
        private EventStream stream;

        private Delivery(Client client, Subscription subscription, Flow.Subscriber<? super Event> subscriber) {
            this.client = client;
            this.subscription = subscription;
            this.subscriber = subscriber;
        }

        @Override
        public void run() {
            subscriber.onSubscribe(this);
            Throwable failure;
            try (EventStream opened = client.stream(subscription)) {
                failure = keep(opened) ? deliver(opened) : null;
            } catch (RuntimeException e) {
                failure = e;
            }
            if (isOver()) {
                failure = misuse;
            }
            if (failure != null) {
                subscriber.onError(failure);
            }
        }

        /** Remembers the stream for {@link #cancel}; false: it was cancelled meanwhile. */
        private boolean keep(EventStream opened) {
            lock.lock();
            try {
                stream = opened;
                return !isCancelled;
            } finally {
                lock.unlock();
            }
        }

        private Throwable deliver(EventStream opened) {
            while (isWanted()) {
                Optional<Event> event = opened.next();
                if (event.isEmpty() || isOver()) {
                    return null;
                }
                subscriber.onNext(event.get());
            }
            return null;
        }

        /** Waits until another event is requested; false: none will be. */
        private boolean isWanted() {
            lock.lock();
            try {
                while (requested == 0 && !isCancelled) {
                    changed.awaitUninterruptibly();
                }
                if (isCancelled) {
                    return false;
                }
                // This many will never come: without a limit.
                requested -= requested == Long.MAX_VALUE ? 0 : 1;
                return true;
            } finally {
                lock.unlock();
            }
        }

        private boolean isOver() {
            lock.lock();
            try {
                return isCancelled;
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void request(long more) {
            lock.lock();
            try {
                if (more <= 0) {
                    misuse = new IllegalArgumentException("request() takes 1 or more, and not " + more);
                    isCancelled = true;
                } else {
                    requested = requested + more < 0 ? Long.MAX_VALUE : requested + more;
                }
                changed.signalAll();
            } finally {
                lock.unlock();
            }
            if (more <= 0) {
                close();
            }
        }

        @Override
        public void cancel() {
            lock.lock();
            try {
                isCancelled = true;
                changed.signalAll();
            } finally {
                lock.unlock();
            }
            close();
        }

        private void close() {
            EventStream opened;
            lock.lock();
            try {
                opened = stream;
            } finally {
                lock.unlock();
            }
            if (opened != null) {
                opened.close();
            }
        }
    }
}
