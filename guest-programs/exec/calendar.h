/* Times of the command interpreter: part of dcl.c, which includes it once. A time is a number of 100 ns
 * since 17-NOV-1858, as the system keeps it. */

#define TICKS_OF_DAY 864000000000UL
/* Days from 1-JAN of year 0 (proleptic, as days of years that start in March) to 17-NOV-1858. */
#define BASE_DAY 678881L

static const char months[] = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC";

struct moment {
    u32 year, month, day, hour, minute, second, hundredth, weekday;
};

static u64 now(void)
{
    return chmk(SERVICE_CALENDAR, 0, 0, 0, 0, 0, 0);
}

/* Years of 365 days and leap days, in eras of 400 years that start on 1 March. */
static void to_moment(u64 time, struct moment *m)
{
    u64 days = time / TICKS_OF_DAY, rest = time % TICKS_OF_DAY / 100000;
    u64 z = days + BASE_DAY;
    u64 era = z / 146097, of_era = z % 146097;
    u64 year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    u64 of_year = of_era - (365 * year + year / 4 - year / 100);
    u64 march = (5 * of_year + 2) / 153;
    m->day = (u32)(of_year - (153 * march + 2) / 5 + 1);
    m->month = (u32)(march < 10 ? march + 3 : march - 9);
    m->year = (u32)(year + era * 400 + (m->month <= 2));
    /* 17-NOV-1858 was a Wednesday. */
    m->weekday = (u32)((days + 2) % 7);
    m->hundredth = (u32)(rest % 100);
    m->second = (u32)(rest / 100 % 60);
    m->minute = (u32)(rest / 6000 % 60);
    m->hour = (u32)(rest / 360000);
}

static u64 from_moment(const struct moment *m)
{
    u64 year = m->year - (m->month <= 2), of_era = year % 400;
    u64 march = m->month > 2 ? m->month - 3 : m->month + 9;
    u64 of_year = (153 * march + 2) / 5 + m->day - 1;
    u64 days = year / 400 * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - BASE_DAY;
    u64 hundredths = ((m->hour * 60UL + m->minute) * 60 + m->second) * 100 + m->hundredth;
    return days * TICKS_OF_DAY + hundredths * 100000;
}

static void add(struct value *v, int c)
{
    if (v->length < LINE)
        v->text[v->length++] = (u8)c;
}

/* A number with so many digits at least, behind zeros or, in the day of a date, a blank. */
static void add_number(struct value *v, u32 number, u32 width, int fill)
{
    u8 text[12];
    u32 n = digits((i32)number, text);
    for (u32 i = n; i < width; i++)
        add(v, fill);
    for (u32 i = 0; i < n; i++)
        add(v, text[i]);
}

static void add_date(struct value *v, const struct moment *m, int comparison)
{
    if (comparison) {
        add_number(v, m->year, 4, '0');
        add(v, '-');
        add_number(v, m->month, 2, '0');
        add(v, '-');
        add_number(v, m->day, 2, '0');
        return;
    }
    add_number(v, m->day, 2, ' ');
    add(v, '-');
    for (u32 i = 0; i < 3; i++)
        add(v, months[3 * (m->month - 1) + i]);
    add(v, '-');
    add_number(v, m->year, 4, '0');
}

static void add_time(struct value *v, const struct moment *m)
{
    add_number(v, m->hour, 2, '0');
    add(v, ':');
    add_number(v, m->minute, 2, '0');
    add(v, ':');
    add_number(v, m->second, 2, '0');
    add(v, '.');
    add_number(v, m->hundredth, 2, '0');
}

static void add_datetime(struct value *v, const struct moment *m, int comparison)
{
    add_date(v, m, comparison);
    add(v, ' ');
    add_time(v, m);
}

/* Digits of a time's text. */
static u32 field(const struct value *v, u32 *i)
{
    u32 number = 0;
    while (*i < v->length && is_digit(v->text[*i]))
        number = number * 10 + (u32)(v->text[(*i)++] - '0');
    return number;
}

static int skip(const struct value *v, u32 *i, int c)
{
    if (*i >= v->length || v->text[*i] != c)
        return 0;
    ++*i;
    return 1;
}

/* An absolute time: TODAY and the like, or dd-mmm-yyyy with a time behind a colon or blank, of which
 * parts may be missing. */
static int parse_time(struct value *v, u64 *time)
{
    static const u8 lengths[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    struct moment m;
    u32 i = 0, word = 0;
    u8 text[NAME];
    while (i < v->length && v->text[i] == ' ')
        i++;
    for (u32 j = i; j < v->length && word < NAME && is_name(v->text[j]) && !is_digit(v->text[j]); j++)
        text[word++] = (u8)upper(v->text[j]);
    *time = now();
    if (i == v->length)
        return 1;
    to_moment(*time, &m);
    if (word) {
        u64 day = *time - *time % TICKS_OF_DAY;
        i += word;
        if (same(text, word, "TODAY"))
            *time = day;
        else if (same(text, word, "TOMORROW"))
            *time = day + TICKS_OF_DAY;
        else if (same(text, word, "YESTERDAY"))
            *time = day - TICKS_OF_DAY;
        else
            return 0;
        return i == v->length;
    }
    for (word = i; word < v->length && is_digit(v->text[word]); word++)
        ;
    m.hour = m.minute = m.second = m.hundredth = 0;
    if (word < v->length && v->text[word] == '-') {
        m.day = field(v, &i);
        i++;
        for (m.month = 1; m.month <= 12; m.month++) {
            const char *name = months + 3 * (m.month - 1);
            if (i + 3 <= v->length && upper(v->text[i]) == name[0]
                && upper(v->text[i + 1]) == name[1] && upper(v->text[i + 2]) == name[2])
                break;
        }
        i += 3;
        if (skip(v, &i, '-'))
            m.year = field(v, &i);
        if (m.month > 12 || m.day < 1 || m.day > lengths[m.month - 1] || m.year < 1859
            || m.year > 9999)
            return 0;
        if (!skip(v, &i, ':'))
            skip(v, &i, ' ');
    }
    m.hour = field(v, &i);
    if (skip(v, &i, ':'))
        m.minute = field(v, &i);
    if (skip(v, &i, ':'))
        m.second = field(v, &i);
    if (skip(v, &i, '.'))
        m.hundredth = field(v, &i);
    *time = from_moment(&m);
    return i == v->length && m.hour < 24 && m.minute < 60 && m.second < 60 && m.hundredth < 100;
}

/* F$TIME() behind its parenthesis. */
static void time_function(struct value *v)
{
    struct moment m;
    to_moment(now(), &m);
    set_text(v, 0, 0);
    add_datetime(v, &m, 0);
}

/* An argument that may be missing; true if it is there. */
static int optional(struct value *v, int first, int depth)
{
    set_text(v, 0, 0);
    blanks();
    if (!first && !take(','))
        return 0;
    blanks();
    if (peek() == ',' || peek() == ')')
        return 0;
    expression(v, 0, depth + 1);
    to_text(v);
    for (u32 i = 0; i < v->length; i++)
        v->text[i] = (u8)upper(v->text[i]);
    return 1;
}

/* F$CVTIME(time, form, field). */
static void convert_time(struct value *v, int depth)
{
    static const char *days = "MondayTuesdayWednesdayThursdayFridaySaturdaySunday";
    static const u8 ends[] = { 0, 6, 13, 22, 30, 36, 44, 50 };
    struct value form, part;
    struct moment m;
    u64 time;
    int comparison;
    optional(v, 1, depth);
    optional(&form, 0, depth);
    optional(&part, 0, depth);
    if (failed)
        return;
    if (!parse_time(v, &time)) {
        fault("IVATIME", "invalid absolute time - use DD-MMM-YYYY:HH:MM:SS.CC format");
        return;
    }
    to_moment(time, &m);
    comparison = !same(form.text, form.length, "ABSOLUTE");
    if (comparison && form.length && !same(form.text, form.length, "COMPARISON")) {
        fault("IVKEYW", "unrecognized keyword - check validity and spelling");
        return;
    }
    set_text(v, 0, 0);
    if (!part.length || same(part.text, part.length, "DATETIME")) {
        add_datetime(v, &m, comparison);
    } else if (same(part.text, part.length, "DATE")) {
        add_date(v, &m, comparison);
    } else if (same(part.text, part.length, "TIME")) {
        add_time(v, &m);
    } else if (same(part.text, part.length, "YEAR")) {
        add_number(v, m.year, 4, '0');
    } else if (same(part.text, part.length, "MONTH")) {
        if (comparison)
            add_number(v, m.month, 2, '0');
        else
            for (u32 i = 0; i < 3; i++)
                add(v, months[3 * (m.month - 1) + i]);
    } else if (same(part.text, part.length, "DAY")) {
        add_number(v, m.day, comparison ? 2 : 1, '0');
    } else if (same(part.text, part.length, "HOUR")) {
        add_number(v, m.hour, 2, '0');
    } else if (same(part.text, part.length, "MINUTE")) {
        add_number(v, m.minute, 2, '0');
    } else if (same(part.text, part.length, "SECOND")) {
        add_number(v, m.second, 2, '0');
    } else if (same(part.text, part.length, "HUNDREDTH")) {
        add_number(v, m.hundredth, 2, '0');
    } else if (same(part.text, part.length, "WEEKDAY")) {
        for (u32 i = ends[m.weekday]; i < ends[m.weekday + 1]; i++)
            add(v, days[i]);
    } else {
        fault("IVKEYW", "unrecognized keyword - check validity and spelling");
    }
}
