/* Lexical functions of the command interpreter: part of dcl.c, which includes it once. */

/* The next argument, behind its comma if it is not the first. */
static void argument(struct value *v, int first, int depth)
{
    if (!first && !take(','))
        fault("ARGREQ", "missing argument - supply all required arguments");
    else
        expression(v, 0, depth + 1);
}

static i32 number_argument(struct value *v, int depth)
{
    argument(v, 0, depth);
    return to_number(v);
}

/* $GETSYIW or $GETJPIW for one item, by its name. */
static void get_item(const struct value *item, struct value *v, u64 number)
{
    static const struct {
        const char *name;
        u16 code;
        u16 is_text;
    } known[] = {
        { "VERSION", SYI_VERSION, 1 },
        { "NODENAME", SYI_NODENAME, 1 },
        { "MEMSIZE", SYI_MEMSIZE, 0 },
        { "CPUTIM", JPI_CPUTIM, 0 },
    };
    static struct item list[2];
    static struct iosb iosb;
    static u8 buffer[16];
    static u16 got;
    for (u32 i = 0; i < 4; i++) {
        if (!same(item->text, item->length, known[i].name))
            continue;
        list[0].length = sizeof buffer;
        list[0].code = known[i].code;
        list[0].buffer = (u32)(u64)buffer;
        list[0].return_length = (u32)(u64)&got;
        if (!(chmk(number, 1, 0, 0, (u64)list, (u64)&iosb, 0) & 1))
            break;
        if (known[i].is_text)
            set_text(v, buffer, got);
        else
            set_number(v, *(i32 *)buffer);
        return;
    }
    fault("IVKEYW", "unrecognized keyword - check validity and spelling");
}

/* F$EDIT: the edits that the list names, in the order in which DCL makes them. */
static void edit(struct value *v, const struct value *list)
{
    u32 i = 0, n;
    while (i < list->length) {
        u8 word[NAME];
        u32 k = 0, out = 0;
        while (i < list->length && list->text[i] != ',') {
            if (list->text[i] != ' ' && k < NAME)
                word[k++] = (u8)upper(list->text[i]);
            i++;
        }
        i++;
        n = v->length;
        if (same(word, k, "UPCASE")) {
            for (u32 j = 0; j < n; j++)
                v->text[j] = (u8)upper(v->text[j]);
        } else if (same(word, k, "LOWERCASE")) {
            for (u32 j = 0; j < n; j++)
                if (v->text[j] >= 'A' && v->text[j] <= 'Z')
                    v->text[j] += 32;
        } else if (same(word, k, "COLLAPSE") || same(word, k, "COMPRESS")) {
            int all = word[3] == 'L';
            for (u32 j = 0; j < n; j++) {
                int blank = v->text[j] == ' ' || v->text[j] == '\t';
                int again = blank && out && v->text[out - 1] == ' ';
                if (!blank)
                    v->text[out++] = v->text[j];
                else if (!all && !again)
                    v->text[out++] = ' ';
            }
            v->length = out;
        } else if (same(word, k, "TRIM")) {
            u32 start = 0;
            while (start < n && v->text[start] == ' ')
                start++;
            while (n > start && v->text[n - 1] == ' ')
                n--;
            for (u32 j = start; j < n; j++)
                v->text[out++] = v->text[j];
            v->length = out;
        } else {
            fault("IVKEYW", "unrecognized keyword - check validity and spelling");
        }
    }
}

/* F$FAO: !AS !SL !UL !XL !/ !! and plain text. */
static void format(struct value *v, int depth)
{
    static struct value control, next;
    u32 n = 0;
    copy(&control, v);
    for (u32 i = 0; i < control.length && n + 16 < LINE; i++) {
        u8 a, b;
        if (control.text[i] != '!' || i + 1 >= control.length) {
            v->text[n++] = control.text[i];
            continue;
        }
        a = (u8)upper(control.text[++i]);
        if (a == '!' || a == '/') {
            v->text[n++] = a == '!' ? '!' : '\n';
            continue;
        }
        b = (u8)upper(i + 1 < control.length ? control.text[++i] : 0);
        argument(&next, 0, depth);
        if (failed)
            return;
        if (a == 'A' && b == 'S') {
            to_text(&next);
            for (u32 j = 0; j < next.length && n < LINE; j++)
                v->text[n++] = next.text[j];
        } else if ((a == 'S' || a == 'U') && b == 'L') {
            n += digits(to_number(&next), v->text + n);
        } else if (a == 'X' && b == 'L') {
            for (int shift = 28; shift >= 0; shift -= 4)
                v->text[n++] = (u8) "0123456789ABCDEF"[(u32)to_number(&next) >> shift & 15];
        } else {
            fault("INVARG", "invalid formatting directive");
        }
    }
    v->is_string = 1;
    v->length = n;
}

/* The function `word` with its arguments; the closing parenthesis is taken. */
static void lexical(const u8 *word, u32 n, struct value *v, int depth)
{
    struct value other;
    if (!take('(')) {
        fault("EXPSYN", "invalid expression syntax - check operators and operands");
        return;
    }
    if (same(word, n, "F$TIME") || same(word, n, "F$CVTIME")) {
        if (n == 6)
            time_function(v);
        else
            convert_time(v, depth);
        if (!failed && !take(')'))
            fault("EXPSYN", "invalid expression syntax - check operators and operands");
        return;
    }
    argument(v, 1, depth);
    if (failed)
        return;
    if (same(word, n, "F$GETJPI")) {
        argument(&other, 0, depth);
        if (!failed)
            get_item(&other, v, SERVICE_GETJPI);
    } else if (same(word, n, "F$GETSYI")) {
        copy(&other, v);
        get_item(&other, v, SERVICE_GETSYI);
    } else if (same(word, n, "F$STRING")) {
        to_text(v);
    } else if (same(word, n, "F$INTEGER")) {
        set_number(v, to_number(v));
    } else if (same(word, n, "F$LENGTH")) {
        to_text(v);
        set_number(v, (i32)v->length);
    } else if (same(word, n, "F$EXTRACT")) {
        i32 start = to_number(v), count = number_argument(&other, depth);
        argument(v, 0, depth);
        to_text(v);
        if (start < 0)
            start = 0;
        if ((u32)start > v->length)
            start = (i32)v->length;
        if (count < 0)
            count = 0;
        if ((u32)count > v->length - (u32)start)
            count = (i32)v->length - start;
        for (i32 i = 0; i < count; i++)
            v->text[i] = v->text[start + i];
        v->length = (u32)count;
    } else if (same(word, n, "F$LOCATE")) {
        u32 i, j;
        argument(&other, 0, depth);
        to_text(v);
        to_text(&other);
        for (i = 0; i < other.length; i++) {
            for (j = 0; j < v->length && i + j < other.length; j++)
                if (other.text[i + j] != v->text[j])
                    break;
            if (j == v->length)
                break;
        }
        set_number(v, (i32)i);
    } else if (same(word, n, "F$ELEMENT")) {
        i32 wanted = to_number(v), k = 0;
        u8 delimiter;
        u32 out = 0;
        argument(&other, 0, depth);
        to_text(&other);
        delimiter = other.length ? other.text[0] : ',';
        argument(v, 0, depth);
        to_text(v);
        for (u32 i = 0; i < v->length; i++) {
            if (v->text[i] == delimiter)
                k++;
            else if (k == wanted)
                v->text[out++] = v->text[i];
        }
        if (k < wanted)
            v->text[out++] = delimiter;
        v->length = out;
    } else if (same(word, n, "F$EDIT")) {
        argument(&other, 0, depth);
        to_text(v);
        if (!failed)
            edit(v, &other);
    } else if (same(word, n, "F$FAO")) {
        to_text(v);
        format(v, depth);
    } else {
        fault("IVFNAM", "invalid function name - check validity and spelling");
    }
    if (!take(')'))
        fault("EXPSYN", "invalid expression syntax - check operators and operands");
}
