#include "agent/c/escape.h"

#include "common/buf.h"
#include "common/error.h"
#include "common/rng.h"
#include "tests/unit/agent-c/fixture.h"

#define FFFD "\xef\xbf\xbd"

struct row {
	const char *in;
	size_t length;
	const char *out;
};
#define ROW(in, out)                                                                               \
	{                                                                                          \
		in, sizeof(in) - 1, out                                                            \
	}

/* The examples of Unicode's "U+FFFD substitution of maximal subparts", and the edges of each
 * length. */
static const struct row byte_rows[] = {
	ROW("", ""),
	ROW("plain text, longer than a word", "plain text, longer than a word"),
	ROW("\"quoted\" \\ back", "\\\"quoted\\\" \\\\ back"),
	ROW("\b\t\n\f\r", "\\b\\t\\n\\f\\r"),
	ROW("\x00\x01\x1f", "\\u0000\\u0001\\u001f"),
	ROW("\x7f", "\x7f"),
	ROW("01234567\n1234567\"", "01234567\\n1234567\\\""),
	ROW("\u00e9\u20ac\U0001f600", "\u00e9\u20ac\U0001f600"),
	ROW("\xef\xbb\xbfmark", "\xef\xbb\xbfmark"),
	ROW("\xc2\x80\xdf\xbf", "\xc2\x80\xdf\xbf"),
	ROW("\xe0\xa0\x80\xef\xbf\xbf", "\xe0\xa0\x80\xef\xbf\xbf"),
	ROW("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
	ROW("\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"),
	ROW("\x80", FFFD),
	ROW("\xff\xfe", FFFD FFFD),
	ROW("\xc0\xaf", FFFD FFFD),
	ROW("\xc1\xbf", FFFD FFFD),
	ROW("\xe0\x80\xbf", FFFD FFFD FFFD),
	ROW("\xe0\x9f\xbf", FFFD FFFD FFFD),
	ROW("\xed\xa0\x80", FFFD FFFD FFFD),
	ROW("\xf0\x80\x81\x82", FFFD FFFD FFFD FFFD),
	ROW("\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD),
	ROW("\xf5\x80\x80\x80", FFFD FFFD FFFD FFFD),
	ROW("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", FFFD FFFD FFFD FFFD "A"),
	ROW("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64",
		"a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d"),
	ROW("\xe2\x82\n", FFFD "\\n"),
	ROW("\xe2\x82\"", FFFD "\\\""),
	ROW("end \xf0\x9f\x98", "end " FFFD),
	ROW("end \xc3", "end " FFFD),
};

/* JSON string text as it stands in deltas. */
static const struct row json_rows[] = {
	ROW("", ""),
	ROW("plain", "plain"),
	ROW("\\n\\u00e9\\\"\\\\\\/ kept as they are", "\\n\\u00e9\\\"\\\\\\/ kept as they are"),
	ROW("\u00e9\U0001f600", "\u00e9\U0001f600"),
	ROW("\\ud83d\\ude00", "\\ud83d\\ude00"),
	ROW("\\uD83D\\uDE00", "\\uD83D\\uDE00"),
	ROW("\\ud83d", FFFD),
	ROW("\\ude00", FFFD),
	ROW("\\ude00\\ud83d", FFFD FFFD),
	ROW("\\ud83d\\ud83d\\ude00", FFFD "\\ud83d\\ude00"),
	ROW("\\ud83dx", FFFD "x"),
	ROW("\\ud83d\\n", FFFD "\\n"),
	ROW("\\ud83d\\u0041", FFFD "\\u0041"),
	ROW("\\ud83d\u00e9", FFFD "\u00e9"),
	ROW("\\\\ud83d", "\\\\ud83d"),
	ROW("\\ud7ff\\ue000", "\\ud7ff\\ue000"),
	ROW("\xe2\x82", FFFD),
	ROW("\xff\\n", FFFD "\\n"),
	ROW("\xe2\x82\\ud83d\\ude00", FFFD "\\ud83d\\ude00"),
};

static void begin(struct buf *out)
{
	buf_init(out, SIZE_MAX / 2);
}

static void assert_text(struct buf *out, const char *want)
{
	buf_add_char(out, '\0');
	assert_string_equal(out->data, want);
	assert_int_equal(out->length, strlen(want) + 1);
	buf_release(out);
}

static void bytes_split_anywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(byte_rows); i++) {
		const struct row *row = &byte_rows[i];
		for (size_t a = 0; a <= row->length; a++)
			for (size_t b = a; b <= row->length; b++) {
				struct escape escape;
				struct buf out;
				begin(&out);
				escape_init(&escape, SIZE_MAX);
				escape_bytes(&escape, &out, row->in, a);
				escape_bytes(&escape, &out, row->in + a, b - a);
				escape_bytes(&escape, &out, row->in + b, row->length - b);
				escape_end(&escape, &out);
				assert_text(&out, row->out);
			}
	}
}

static void a_byte_at_a_time(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(byte_rows); i++) {
		struct escape escape;
		struct buf out;
		begin(&out);
		escape_init(&escape, SIZE_MAX);
		for (size_t k = 0; k < byte_rows[i].length; k++)
			escape_bytes(&escape, &out, byte_rows[i].in + k, 1);
		escape_end(&escape, &out);
		assert_text(&out, byte_rows[i].out);
	}
}

/* Where JSON string text may be cut: not within an escape, as a delta is whole. */
static bool may_cut(const struct row *row, size_t at)
{
	for (size_t i = 0; i < at;) {
		if (row->in[i] == '\\')
			i += row->in[i + 1] == 'u' ? 6 : 2;
		else
			i++;
		if (i > at)
			return false;
	}
	return true;
}

static void deltas_split_anywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(json_rows); i++) {
		const struct row *row = &json_rows[i];
		for (size_t a = 0; a <= row->length; a++)
			for (size_t b = a; b <= row->length; b++) {
				if (!may_cut(row, a) || !may_cut(row, b))
					continue;
				struct escape escape;
				struct buf out;
				begin(&out);
				escape_init(&escape, SIZE_MAX);
				escape_json(&escape, &out, row->in, a);
				escape_json(&escape, &out, row->in + a, b - a);
				escape_json(&escape, &out, row->in + b, row->length - b);
				escape_end(&escape, &out);
				assert_text(&out, row->out);
			}
	}
}

struct cap_row {
	const char *in;
	size_t max;
	const char *out;
	bool cut, ends_in_lf;
};

static const struct cap_row cap_rows[] = {
	{"abcd", 4, "abcd", false, false},
	{"abcde", 4, "abcd", true, false},
	{"abc\n", 4, "abc\\n", false, true},
	{"abc\nd", 4, "abc\\n", true, true},
	{"ab\u20ac", 4, "ab", true, false},
	{"a\u20ac", 4, "a\u20ac", false, false},
	/* a prefix: what is smaller and comes later is not taken */
	{"ab\u20acc", 4, "ab", true, false},
	{"ab\xff"
	 "c",
		4, "ab", true, false},
	{"abc\xe2\x82", 4, "abc", true, false},
	{"a\xe2\x82", 4, "a" FFFD, false, false},
	{"\"\"\"\"\"", 4, "\\\"\\\"\\\"\\\"", true, false},
	{"\x01\x01\x01\x01", 4, "\\u0001\\u0001\\u0001\\u0001", false, false},
	{"", 4, "", false, false},
};

static void cap_counts_decoded_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(cap_rows); i++) {
		const struct cap_row *row = &cap_rows[i];
		for (size_t part = 1; part <= 8; part++) {
			struct escape escape;
			struct buf out;
			size_t length = strlen(row->in);
			begin(&out);
			escape_init(&escape, row->max);
			for (size_t at = 0; at < length; at += part)
				escape_bytes(&escape, &out, row->in + at,
					length - at < part ? length - at : part);
			escape_end(&escape, &out);
			assert_int_equal(escape.cut, row->cut);
			assert_int_equal(escape.ends_in_lf, row->ends_in_lf);
			assert_true(escape.length <= row->max);
			assert_text(&out, row->out);
		}
	}
}

/* The quick way over plain bytes against one byte at a time, on random bytes rich in edges. */
static void quick_and_slow_agree(void **state)
{
	(void)state;
	static const unsigned char edges[] = {0, '\n', 0x1f, ' ', '!', '"', '#', '[', '\\', ']',
		0x7e, 0x7f, 0x80, 0xc3, 0xa9, 0xe2, 0xf0, 0xff, 'a', 'b', 'c', 'd', 'e', 'f'};
	uint64_t rng = 7;
	for (int round = 0; round < 2000; round++) {
		unsigned char in[64];
		struct escape quick, slow;
		struct buf quick_out, slow_out;
		size_t max = (size_t)rng_between(&rng, 16, 80);
		begin(&quick_out);
		begin(&slow_out);
		escape_init(&quick, max);
		escape_init(&slow, max);
		for (size_t i = 0; i < sizeof in; i++)
			in[i] = edges[rng_between(&rng, 0, sizeof edges - 1)];
		escape_bytes(&quick, &quick_out, in, sizeof in);
		for (size_t i = 0; i < sizeof in; i++)
			escape_bytes(&slow, &slow_out, in + i, 1);
		escape_end(&quick, &quick_out);
		escape_end(&slow, &slow_out);
		assert_int_equal(quick_out.length, slow_out.length);
		assert_memory_equal(quick_out.data, slow_out.data, quick_out.length);
		assert_int_equal(quick.length, slow.length);
		assert_int_equal(quick.cut, slow.cut);
		assert_int_equal(quick.ends_in_lf, slow.ends_in_lf);
		buf_release(&quick_out);
		buf_release(&slow_out);
	}
}

static void large_text_in_slices(void **state)
{
	(void)state;
	size_t length = 100001;
	char *in = xmalloc(length);
	memset(in, '"', length);
	struct buf out;
	begin(&out);
	escape_text(&out, in, length);
	assert_int_equal(out.length, 2 * length);
	for (size_t i = 0; i < out.length; i++)
		assert_int_equal(out.data[i], i % 2 ? '"' : '\\');
	buf_release(&out);
	free(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_split_anywhere),
		cmocka_unit_test(a_byte_at_a_time),
		cmocka_unit_test(deltas_split_anywhere),
		cmocka_unit_test(cap_counts_decoded_bytes),
		cmocka_unit_test(quick_and_slow_agree),
		cmocka_unit_test(large_text_in_slices),
	};
	return cmocka_run_group_tests_name("agent-c escape", tests, NULL, NULL);
}
