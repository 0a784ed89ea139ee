/**
 * The gatherer for programs on the JVM, where no khz agent runs: it reads the numbers of five kernel files, each from a file that it
 * keeps open, and gives them to many readers.
 */
module dev.kilohertz.gather {
    exports dev.kilohertz.gather;
}
