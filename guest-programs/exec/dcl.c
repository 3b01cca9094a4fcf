/* A command interpreter in supervisor mode: reads a command procedure through the record services of
 * executive mode and executes it, after the manner of DCL. Every command is read, substituted and parsed
 * each time that control comes by it, as DCL does; that is what the DCL loops of the lab measure. */
#include "exec.h"

typedef int i32;

#define LINE 512
#define NAME 32
#define SYMBOLS 256
#define LABELS 64
#define DEPTH 16
/* How deeply expressions nest: bounded by the supervisor stack. */
#define NESTING 12

struct value {
    int is_string;
    i32 number;
    u32 length;
    u8 text[LINE];
};

struct symbol {
    u8 name[NAME];
    u32 name_length;
    struct value value;
};

struct label {
    u8 name[NAME];
    u32 length;
    u64 position;
};

static struct symbol symbols[SYMBOLS];
static struct label labels[LABELS];
static u32 symbol_count, label_count;
static u64 subroutines[DEPTH];
static u32 subroutine_depth;
/* Blocks of IF that are open, and whether their commands are executed. */
static struct { int active, taken, was; } blocks[DEPTH];
static u32 block_depth;
static int running = 1, on_error = 1;
/* What ON has said: a command, and the least severity that it is for. */
static u8 on_command[512];
static u32 on_length, on_severity;
u64 supervisor_sp;
extern u64 run_image(u64 number, u64 stack);
static u64 file_length;
static i32 status = 1;

/* The command at hand: characters, and where the next one is. */
static u8 line[LINE];
static u32 length, at;
/* Set by the first fault of a command; the rest of it is not executed. */
static int failed;


static void put(const u8 *text, u32 n)
{
    chme(RMS_PUT, (u64)text, n, 0, 0, 0, 0);
}

/* Severities, as $SEVERITY has them; how bad each is. */
enum { WARNING = 0, SUCCESS = 1, ERROR = 2, INFORMATION = 3, SEVERE = 4 };

/* A message in DCL's form, with the line that it is about. */
static void fault(const char *ident, const char *what)
{
    static u8 text[LINE + 80];
    u32 n = 0;
    const char *parts[] = { "%DCL-W-", ident, ", ", what };
    if (failed)
        return;
    failed = 1;
    for (u32 p = 0; p < 4; p++)
        for (u32 i = 0; parts[p][i]; i++)
            text[n++] = (u8)parts[p][i];
    put(text, n);
    n = 0;
    text[n++] = ' ';
    text[n++] = '\\';
    for (u32 i = 0; i < length; i++)
        text[n++] = line[i];
    text[n++] = '\\';
    put(text, n);
    status = 0x38060 & ~7;
}

static int upper(int c)
{
    return c >= 'a' && c <= 'z' ? c - 32 : c;
}

static int is_name(int c)
{
    c = upper(c);
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

static int is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static int peek(void)
{
    return at < length ? line[at] : 0;
}

static void blanks(void)
{
    while (peek() == ' ' || peek() == '\t')
        at++;
}

/* Takes a character if it is next. */
static int take(int c)
{
    blanks();
    if (peek() != c)
        return 0;
    at++;
    return 1;
}

/* Reads a name in upper case; its length. */
static u32 name(u8 *to)
{
    u32 n = 0;
    blanks();
    while (is_name(peek())) {
        if (n < NAME)
            to[n++] = (u8)upper(peek());
        at++;
    }
    return n;
}

static int same(const u8 *a, u32 n, const char *b)
{
    for (u32 i = 0; i < n; i++)
        if (a[i] != (u8)b[i] || !b[i])
            return 0;
    return !b[n];
}

/* Whether a word is a command or an abbreviation of at least `least` characters. */
static int means(const u8 *word, u32 n, const char *command, u32 least)
{
    if (n < least)
        return 0;
    for (u32 i = 0; i < n; i++)
        if (word[i] != (u8)command[i])
            return 0;
    return 1;
}

static struct symbol *find(const u8 *text, u32 n)
{
    for (u32 i = 0; i < symbol_count; i++) {
        struct symbol *s = &symbols[i];
        u32 k = 0;
        if (s->name_length != n)
            continue;
        while (k < n && s->name[k] == text[k])
            k++;
        if (k == n)
            return s;
    }
    return 0;
}

static void copy(struct value *to, const struct value *from)
{
    to->is_string = from->is_string;
    to->number = from->number;
    to->length = from->length;
    for (u32 i = 0; i < from->length; i++)
        to->text[i] = from->text[i];
}

static void set_number(struct value *v, i32 number)
{
    v->is_string = 0;
    v->number = number;
    v->length = 0;
}

static void set_text(struct value *v, const u8 *text, u32 n)
{
    v->is_string = 1;
    v->number = 0;
    v->length = n < LINE ? n : LINE;
    for (u32 i = 0; i < v->length; i++)
        v->text[i] = text[i];
}

static void assign(const u8 *text, u32 n, const struct value *v)
{
    struct symbol *s = find(text, n);
    if (!s) {
        if (symbol_count == SYMBOLS) {
            fault("SYMTABFUL", "symbol table full");
            return;
        }
        s = &symbols[symbol_count++];
        s->name_length = n;
        for (u32 i = 0; i < n; i++)
            s->name[i] = text[i];
    }
    copy(&s->value, v);
}

/* Decimal digits of a number. */
static u32 digits(i32 number, u8 *to)
{
    u8 reversed[12];
    u32 n = 0, k = 0;
    u32 rest = number < 0 ? 0u - (u32)number : (u32)number;
    do
        reversed[n++] = (u8)('0' + rest % 10);
    while ((rest /= 10) != 0);
    if (number < 0)
        to[k++] = '-';
    while (n)
        to[k++] = reversed[--n];
    return k;
}

static void to_text(struct value *v)
{
    if (!v->is_string) {
        u8 text[12];
        u32 n = digits(v->number, text);
        set_text(v, text, n);
    }
}

/* The number that a string stands for: what it starts with, or 1 for T and Y. */
static i32 to_number(const struct value *v)
{
    u32 i = 0, result = 0;
    int negative = 0;
    if (!v->is_string)
        return v->number;
    while (i < v->length && v->text[i] == ' ')
        i++;
    if (i < v->length && (upper(v->text[i]) == 'T' || upper(v->text[i]) == 'Y'))
        return 1;
    if (i + 2 < v->length && v->text[i] == '%' && upper(v->text[i + 1]) == 'X') {
        for (i += 2; i < v->length && is_name(v->text[i]); i++)
            result = result * 16 + (u32)(is_digit(v->text[i]) ? v->text[i] - '0'
                                                               : upper(v->text[i]) - 'A' + 10);
        return (i32)result;
    }
    if (i < v->length && (v->text[i] == '-' || v->text[i] == '+'))
        negative = v->text[i++] == '-';
    while (i < v->length && is_digit(v->text[i]))
        result = result * 10 + (u32)(v->text[i++] - '0');
    return (i32)(negative ? 0u - result : result);
}

static void expression(struct value *v, int level, int depth);
#include "calendar.h"
#include "lexical.h"

/* $STATUS as DCL shows it, and $SEVERITY. */
static int condition(const u8 *word, u32 n, struct value *v)
{
    if (same(word, n, "$SEVERITY")) {
        set_number(v, status & 7);
        return 1;
    }
    if (!same(word, n, "$STATUS"))
        return 0;
    set_text(v, (const u8 *)"%X", 2);
    for (int shift = 28; shift >= 0; shift -= 4)
        add(v, "0123456789ABCDEF"[(u32)status >> shift & 15]);
    return 1;
}

/* A number, string, symbol, function or parenthesis. */
static void primary(struct value *v, int depth)
{
    int c;
    blanks();
    c = peek();
    set_number(v, 0);
    if (depth > NESTING) {
        fault("EXPSYN", "invalid expression syntax - nested too deeply");
    } else if (c == '(') {
        at++;
        expression(v, 0, depth + 1);
        if (!take(')'))
            fault("EXPSYN", "invalid expression syntax - check operators and operands");
    } else if (c == '-' || c == '+') {
        at++;
        primary(v, depth + 1);
        set_number(v, c == '-' ? (i32)(0u - (u32)to_number(v)) : to_number(v));
    } else if (c == '"') {
        v->is_string = 1;
        at++;
        for (;;) {
            if (at >= length)
                break;
            if (line[at] == '"') {
                at++;
                if (peek() != '"')
                    break;
            }
            if (v->length < LINE)
                v->text[v->length++] = line[at];
            at++;
        }
    } else if (c == '%') {
        u32 number = 0, base = upper(at + 1 < length ? line[at + 1] : 0) == 'X' ? 16 : 8;
        at += 2;
        while (is_name(peek())) {
            int d = upper(peek());
            d = is_digit(d) ? d - '0' : d - 'A' + 10;
            if (d < 0 || (u32)d >= base) {
                fault("IVCHAR", "invalid numeric value - check for invalid digits");
                return;
            }
            number = number * base + (u32)d;
            at++;
        }
        set_number(v, (i32)number);
    } else if (is_digit(c)) {
        u32 number = 0;
        while (is_digit(peek()))
            number = number * 10 + (u32)(line[at++] - '0');
        set_number(v, (i32)number);
    } else {
        u8 word[NAME];
        u32 n = name(word);
        struct symbol *s;
        if (!n) {
            fault("EXPSYN", "invalid expression syntax - check operators and operands");
        } else if (n > 2 && word[0] == 'F' && word[1] == '$') {
            lexical(word, n, v, depth);
        } else if ((s = find(word, n)) != 0) {
            copy(v, &s->value);
        } else if (word[0] != '$' || !condition(word, n, v)) {
            fault("UNDSYM", "undefined symbol - check validity and spelling");
        }
    }
}

/* Operators by precedence, the loosest first. */
enum { OR, AND, NOT, COMPARE, SUM, PRODUCT, PRIMARY };

/* Takes a dotted operator; its letters, or 0. */
static u32 dotted(u8 *word)
{
    u32 n = 0, start = at;
    blanks();
    if (peek() != '.') {
        at = start;
        return 0;
    }
    at++;
    while (n < 4 && peek() && peek() != '.')
        word[n++] = (u8)upper(line[at++]);
    if (peek() != '.') {
        at = start;
        return 0;
    }
    at++;
    return n;
}

static i32 compare_text(struct value *a, struct value *b)
{
    to_text(a);
    to_text(b);
    for (u32 i = 0; i < a->length || i < b->length; i++) {
        int x = i < a->length ? a->text[i] : -1, y = i < b->length ? b->text[i] : -1;
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

static void compare(struct value *v, struct value *right, const u8 *op, u32 n)
{
    i32 order;
    if (n == 3 && op[2] == 'S') {
        order = compare_text(v, right);
    } else if (v->is_string && right->is_string) {
        order = compare_text(v, right);
    } else {
        i32 a = to_number(v), b = to_number(right);
        order = a < b ? -1 : a > b;
    }
    if (op[0] == 'E' && op[1] == 'Q')
        order = order == 0;
    else if (op[0] == 'N' && op[1] == 'E')
        order = order != 0;
    else if (op[0] == 'L')
        order = op[1] == 'T' ? order < 0 : order <= 0;
    else
        order = op[1] == 'T' ? order > 0 : order >= 0;
    set_number(v, order);
}

static void expression(struct value *v, int level, int depth)
{
    if (failed || level == PRIMARY) {
        primary(v, depth);
        return;
    }
    if (level == NOT) {
        u8 word[4];
        u32 start = at, n = dotted(word);
        if (same(word, n, "NOT")) {
            expression(v, NOT, depth);
            set_number(v, ~to_number(v));
            return;
        }
        at = start;
    }
    expression(v, level + 1, depth);
    while (!failed) {
        struct value right;
        u8 word[4];
        u32 start = at, n;
        int c;
        blanks();
        c = peek();
        if (level == SUM && (c == '+' || c == '-')) {
            at++;
            expression(&right, level + 1, depth);
            if (c == '+' && v->is_string && right.is_string) {
                for (u32 i = 0; i < right.length && v->length < LINE; i++)
                    v->text[v->length++] = right.text[i];
            } else {
                u32 a = (u32)to_number(v), b = (u32)to_number(&right);
                set_number(v, (i32)(c == '+' ? a + b : a - b));
            }
            continue;
        }
        if (level == PRODUCT && (c == '*' || c == '/')) {
            i32 a, b;
            at++;
            expression(&right, level + 1, depth);
            a = to_number(v), b = to_number(&right);
            if (c == '*')
                set_number(v, (i32)((u32)a * (u32)b));
            else if (b == 0)
                set_number(v, 0);
            else
                set_number(v, b == -1 ? (i32)(0u - (u32)a) : a / b);
            continue;
        }
        n = c == '.' ? dotted(word) : 0;
        if (n == 0)
            break;
        if (level == COMPARE && (n == 2 || (n == 3 && word[2] == 'S'))
            && (word[0] == 'E' || word[0] == 'N' || word[0] == 'L' || word[0] == 'G')) {
            expression(&right, level + 1, depth);
            compare(v, &right, word, n);
        } else if (level == AND && same(word, n, "AND")) {
            expression(&right, level + 1, depth);
            set_number(v, to_number(v) & to_number(&right));
        } else if (level == OR && same(word, n, "OR")) {
            expression(&right, level + 1, depth);
            set_number(v, to_number(v) | to_number(&right));
        } else {
            at = start;
            break;
        }
    }
}

/* A record of the procedure: length, or -1 at its end. */
static i32 record(u8 *to)
{
    static u64 n;
    u64 got = chme(RMS_GET, (u64)to, LINE, (u64)&n, 0, 0, 0);
    return got & 1 ? (i32)n : -1;
}

/* Takes the comment off a record; its length. */
static u32 without_comment(const u8 *text, u32 n)
{
    int quoted = 0;
    for (u32 i = 0; i < n; i++) {
        if (text[i] == '"')
            quoted = !quoted;
        if (text[i] == '!' && !quoted) {
            n = i;
            break;
        }
    }
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        n--;
    return n;
}

/* Puts the values of 'symbol' and, in strings, ''symbol' in their places. */
static void substitute(const u8 *from, u32 n)
{
    int quoted = 0;
    length = 0;
    for (u32 i = 0; i < n; i++) {
        int two = i + 1 < n && from[i] == '\'' && from[i + 1] == '\'';
        if (from[i] == '"')
            quoted = !quoted;
        if (from[i] == '\'' && (!quoted || two)) {
            u8 word[NAME];
            u32 k = 0;
            struct symbol *s;
            i += two ? 2 : 1;
            while (i < n && is_name(from[i])) {
                if (k < NAME)
                    word[k++] = (u8)upper(from[i]);
                i++;
            }
            if (i >= n || from[i] != '\'')
                i--;
            if ((s = find(word, k)) != 0) {
                struct value v;
                copy(&v, &s->value);
                to_text(&v);
                for (u32 j = 0; j < v.length && length < LINE; j++)
                    line[length++] = v.text[j];
            }
            continue;
        }
        if (length < LINE)
            line[length++] = from[i];
    }
}

/* The next command, continuation lines joined, symbols substituted; 0 at the end. */
static int command(void)
{
    static u8 raw[LINE], whole[LINE];
    u32 n = 0;
    int more = 1, first = 1;
    while (more) {
        i32 got = record(raw);
        u32 start = 0, end;
        if (got < 0)
            return !first;
        end = without_comment(raw, (u32)got);
        while (start < end && (raw[start] == ' ' || raw[start] == '\t' || raw[start] == '$'))
            start++;
        more = end > start && raw[end - 1] == '-';
        if (more)
            end--;
        for (u32 i = start; i < end && n < LINE; i++)
            whole[n++] = raw[i];
        first = 0;
    }
    failed = 0;
    substitute(whole, n);
    at = 0;
    return 1;
}

static struct label *find_label(const u8 *text, u32 n)
{
    for (u32 i = 0; i < label_count; i++) {
        u32 k = 0;
        while (k < n && k < labels[i].length && labels[i].name[k] == text[k])
            k++;
        if (k == n && labels[i].length == n)
            return &labels[i];
    }
    return 0;
}

static u64 here(void)
{
    return chme(RMS_TELL, 0, 0, 0, 0, 0, 0);
}

/* Notes the label at the start of the command, if there is one, and goes past it. */
static void take_label(void)
{
    u8 word[NAME];
    u32 start = at, n = name(word);
    blanks();
    if (n && peek() == ':' && !(at + 1 < length && line[at + 1] == '=')) {
        at++;
        if (!find_label(word, n) && label_count < LABELS) {
            struct label *l = &labels[label_count++];
            l->length = n;
            l->position = here();
            for (u32 i = 0; i < n; i++)
                l->name[i] = word[i];
        }
        return;
    }
    at = start;
}

/* Goes on behind a label, wherever it is. */
static void go(const u8 *word, u32 n)
{
    struct label *l = find_label(word, n);
    u64 back = here();
    if (!n) {
        fault("IVKEYW", "missing label");
        return;
    }
    for (int round = 0; !l && round < 2; round++) {
        while (!l && command()) {
            take_label();
            l = find_label(word, n);
        }
        if (!l && round == 0)
            chme(RMS_FIND, 0, 0, 0, 0, 0, 0);
    }
    if (!l) {
        chme(RMS_FIND, back, 0, 0, 0, 0, 0);
        fault("USGOTO", "target of GOTO not found - check spelling and presence of label");
        running = 0;
        return;
    }
    chme(RMS_FIND, l->position, 0, 0, 0, 0, 0);
    block_depth = 0;
}

static void show_symbol(void)
{
    u8 word[NAME], text[LINE + 64];
    u32 n = name(word), k = 0;
    struct symbol *s = find(word, n);
    struct value v;
    if (!s) {
        fault("UNDSYM", "undefined symbol - check validity and spelling");
        return;
    }
    text[k++] = ' ';
    text[k++] = ' ';
    for (u32 i = 0; i < n; i++)
        text[k++] = word[i];
    copy(&v, &s->value);
    to_text(&v);
    text[k++] = ' ';
    text[k++] = '=';
    text[k++] = ' ';
    if (s->value.is_string)
        text[k++] = '"';
    for (u32 i = 0; i < v.length; i++)
        text[k++] = v.text[i];
    if (s->value.is_string) {
        text[k++] = '"';
    } else {
        static const char hex[] = "0123456789ABCDEF";
        const char *mark = "   Hex = ";
        for (u32 i = 0; mark[i]; i++)
            text[k++] = (u8)mark[i];
        for (int shift = 28; shift >= 0; shift -= 4)
            text[k++] = (u8)hex[(u32)s->value.number >> shift & 15];
    }
    put(text, k);
}

static void message(const char *text)
{
    u32 n = 0;
    while (text[n])
        n++;
    put((const u8 *)text, n);
}

static void show_cpu(void)
{
    message("System: AXPLAB, Alpha, OpenVMS PALcode");
    message("");
    message("CPU ownership sets:");
    message("   Active           0");
    message("   Configure        0");
    message("");
    message("CPU state sets:");
    message("   Potential        0");
    message("   Autostart        0");
    message("   Failover         None");
}

static void write_list(void)
{
    u8 word[NAME];
    u32 n = name(word);
    static struct value sum, v;
    if (!same(word, n, "SYS$OUTPUT")) {
        fault("UNDFIL", "file has not been opened by DCL - check logical name");
        return;
    }
    set_text(&sum, 0, 0);
    do {
        expression(&v, OR, 0);
        to_text(&v);
        for (u32 i = 0; i < v.length && sum.length < LINE; i++)
            sum.text[sum.length++] = v.text[i];
    } while (!failed && take(','));
    if (!failed)
        put(sum.text, sum.length);
}

static void execute(int depth);

#include "statements.h"

/* IF condition THEN command, or a block. */
static void if_command(int depth)
{
    static struct value v;
    u8 word[NAME];
    u32 start, n;
    int truth;
    expression(&v, OR, 0);
    truth = to_number(&v) & 1;
    if (failed)
        truth = 0;
    blanks();
    start = at;
    n = name(word);
    if (same(word, n, "THEN")) {
        if (!failed && truth) {
            take('$');
            execute(depth + 1);
        }
        return;
    }
    at = start;
    if (at < length && !failed) {
        fault("NOTHEN", "IF or ON statement syntax error - check placement of THEN keyword");
        return;
    }
    /* The THEN of a block stands on the next line. */
    if (block_depth == DEPTH) {
        fault("INVIFNEST", "invalid IF-THEN-ELSE nesting structure or data inconsistency");
        return;
    }
    blocks[block_depth].was = 1;
    blocks[block_depth].taken = truth;
    blocks[block_depth++].active = truth;
}

static int skipping(void)
{
    return block_depth && !blocks[block_depth - 1].active;
}

static void execute(int depth)
{
    u8 word[NAME];
    u32 start, n;
    if (depth > DEPTH) {
        fault("STKOVF", "command procedures too deeply nested");
        return;
    }
    blanks();
    if (at >= length)
        return;
    start = at;
    n = name(word);
    blanks();
    /* Words of blocks are seen even where commands are skipped. */
    if (same(word, n, "THEN") || same(word, n, "ELSE")) {
        int is_else = word[0] == 'E';
        if (!block_depth) {
            fault("NOIF", "THEN or ELSE without IF");
            return;
        }
        if (is_else && blocks[block_depth - 1].was)
            blocks[block_depth - 1].active = !blocks[block_depth - 1].taken;
        if (!skipping())
            execute(depth + 1);
        return;
    }
    if (same(word, n, "ENDIF")) {
        if (block_depth)
            block_depth--;
        else
            fault("NOIF", "ENDIF without IF");
        return;
    }
    if (skipping()) {
        if (same(word, n, "IF")) {
            /* A block inside one that is skipped; a one-line IF opens none. */
            int found = 0;
            for (u32 i = at; i + 4 <= length; i++)
                if (upper(line[i]) == 'T' && upper(line[i + 1]) == 'H' && upper(line[i + 2]) == 'E'
                    && upper(line[i + 3]) == 'N' && !is_name(line[i - 1]))
                    found = 1;
            if (!found && block_depth < DEPTH) {
                blocks[block_depth].was = 0;
                blocks[block_depth].taken = 1;
                blocks[block_depth++].active = 0;
            }
        }
        return;
    }
    if (n && peek() == '=') {
        static struct value v;
        at++;
        if (peek() == '=')
            at++;
        expression(&v, OR, 0);
        blanks();
        if (!failed && at < length)
            fault("EXPSYN", "invalid expression syntax - check operators and operands");
        if (!failed)
            assign(word, n, &v);
        return;
    }
    if (n && peek() == ':' && at + 1 < length && line[at + 1] == '=') {
        struct value v;
        at += 2;
        if (peek() == '=')
            at++;
        blanks();
        set_text(&v, line + at, length - at);
        for (u32 i = 0; i < v.length; i++)
            v.text[i] = (u8)upper(v.text[i]);
        assign(word, n, &v);
        return;
    }
    if (same(word, n, "IF")) {
        if_command(depth);
    } else if (means(word, n, "GOTO", 2)) {
        n = name(word);
        go(word, n);
    } else if (means(word, n, "GOSUB", 4)) {
        if (subroutine_depth == DEPTH) {
            fault("STKOVF", "command procedures too deeply nested");
            return;
        }
        subroutines[subroutine_depth++] = here();
        n = name(word);
        go(word, n);
    } else if (means(word, n, "RETURN", 3)) {
        if (!subroutine_depth)
            fault("INVGOSUB", "RETURN without GOSUB");
        else
            chme(RMS_FIND, subroutines[--subroutine_depth], 0, 0, 0, 0, 0);
    } else if (same(word, n, "ON")) {
        on_statement();
    } else if (means(word, n, "RUN", 1)) {
        run_command();
    } else if (means(word, n, "WRITE", 3)) {
        write_list();
    } else if (means(word, n, "EXIT", 2)) {
        static struct value v;
        if (at < length) {
            expression(&v, OR, 0);
            status = to_number(&v);
        }
        running = 0;
    } else if (means(word, n, "SHOW", 2)) {
        n = name(word);
        if (means(word, n, "SYMBOL", 2))
            show_symbol();
        else if (means(word, n, "CPU", 2))
            show_cpu();
        else
            fault("IVKEYW", "unrecognized keyword - check validity and spelling");
    } else if (means(word, n, "SET", 3)) {
        n = name(word);
        if (same(word, n, "ON"))
            on_error = 1;
        else if (same(word, n, "NOON"))
            on_error = 0;
        else if (!means(word, n, "NOVERIFY", 5) && !means(word, n, "VERIFY", 3))
            fault("IVKEYW", "unrecognized keyword - check validity and spelling");
    } else {
        at = start;
        fault("IVVERB", "unrecognized command verb - check validity and spelling");
    }
}

void dcl_main(void)
{
    file_length = chmk(SERVICE_PARAMETER, PARAMETER_BASE, 0, 0, 0, 0, 0);
    chme(RMS_OPEN, file_length, 0, 0, 0, 0, 0);
    while (running && command()) {
        take_label();
        take('$');
        execute(0);
        if (failed)
            command_failed();
    }
    chmk(SERVICE_EXIT, status & 1 ? 0 : 1, 0, 0, 0, 0, 0);
}
