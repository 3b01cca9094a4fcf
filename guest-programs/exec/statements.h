/* ON and RUN of the command interpreter: part of dcl.c, which includes it once. */

/* ON condition THEN command. */
static void on_statement(void)
{
    u8 word[NAME];
    u32 n = name(word), severity;
    if (means(word, n, "WARNING", 1)) {
        severity = WARNING;
    } else if (means(word, n, "ERROR", 1)) {
        severity = ERROR;
    } else if (means(word, n, "SEVERE_ERROR", 1)) {
        severity = SEVERE;
    } else if (same(word, n, "CONTROL_Y")) {
        return;
    } else {
        fault("IVKEYW", "unrecognized keyword - check validity and spelling");
        return;
    }
    n = name(word);
    blanks();
    if (!same(word, n, "THEN") || at >= length) {
        fault("NOTHEN", "IF or ON statement syntax error - check placement of THEN keyword");
        return;
    }
    take('$');
    blanks();
    on_severity = severity;
    on_length = 0;
    while (at < length)
        on_command[on_length++] = line[at++];
}

/* A command has ended with a warning or worse: what ON says is done once, and errors end the
 * procedure where it says nothing. */
static void command_failed(void)
{
    u32 severity = (u32)status & 7;
    if (!on_error || (severity & 1))
        return;
    if (on_length && severity >= on_severity) {
        length = 0;
        while (length < on_length) {
            line[length] = on_command[length];
            length++;
        }
        at = on_length = 0;
        failed = 0;
        execute(0);
    } else if (severity >= ERROR) {
        running = 0;
    }
}

/* RUN: an image in user mode. The name is one file specification, of which the last part counts. */
static void run_command(void)
{
    static const char *const images[IMAGES] = { "GETSYI", "HELLO", "BADADDR" };
    u8 word[NAME];
    u32 n;
    u64 ended;
    do {
        n = name(word);
    } while (n && (take(':') || take(']')));
    if (take('.'))
        while (is_name(peek()))
            at++;
    if (!n) {
        fault("INSFPRM", "missing command parameters - supply all required parameters");
        return;
    }
    for (u64 i = 0; i < IMAGES; i++) {
        if (!same(word, n, images[i]))
            continue;
        ended = run_image(i, chmk(SERVICE_USER_STACK, 0, 0, 0, 0, 0, 0));
        status = (i32)(ended >> 1);
        if ((ended & 1) == IMAGE_ACCVIO)
            message("%SYSTEM-F-ACCVIO, access violation");
        failed = !(status & 1);
        return;
    }
    fault("ACTIMAGE", "error activating image - file not found");
    status = 0x388a0 | ERROR;
}
