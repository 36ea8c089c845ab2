#include "common/json_schema.h"

#include "common/error.h"
#include "common/json.h"

#include <stdlib.h>

static const char *type_of(enum json_field_kind kind)
{
	static const char *const names[] = {[JSON_FIELD_TEXT] = "string",
		[JSON_FIELD_INT] = "integer",
		[JSON_FIELD_REAL] = "number",
		[JSON_FIELD_BOOL] = "boolean",
		[JSON_FIELD_OBJECT] = "object",
		[JSON_FIELD_ARRAY] = "array"};
	return names[kind];
}

static void set_bounds(json_t *property, const struct json_field *field)
{
	const char *low = field->kind == JSON_FIELD_TEXT    ? "minLength"
			  : field->kind == JSON_FIELD_ARRAY ? "minItems"
							    : "minimum";
	const char *high = field->kind == JSON_FIELD_TEXT    ? "maxLength"
			   : field->kind == JSON_FIELD_ARRAY ? "maxItems"
							     : "maximum";
	if (field->kind == JSON_FIELD_REAL) {
		json_set(property, low, json_real(field->real_min));
		json_set(property, high, json_real(field->real_max));
	} else if (field->kind != JSON_FIELD_BOOL && field->kind != JSON_FIELD_OBJECT) {
		json_set(property, low, json_integer(field->min));
		json_set(property, high, json_integer(field->max));
	}
}

static json_t *property_of(const struct json_field *field)
{
	json_t *property = json_object();
	if (field->help)
		json_set(property, "description", json_string(field->help));
	json_set(property, "type",
		field->optional ? json_pack("[s, s]", type_of(field->kind), "null")
				: json_string(type_of(field->kind)));
	set_bounds(property, field);
	return property;
}

json_t *json_schema_of(const struct json_field *fields, size_t count, bool open)
{
	json_t *schema = json_object(), *properties = json_object(), *required = json_array();
	json_set(schema, "type", json_string("object"));
	for (size_t i = 0; i < count; i++) {
		json_set(properties, fields[i].name, property_of(&fields[i]));
		if (!fields[i].optional)
			json_array_append_new(required, json_string(fields[i].name));
	}
	if (json_array_size(required))
		json_set(schema, "required", json_incref(required));
	json_decref(required);
	if (!open) {
		json_set(properties, "$schema", json_pack("{s:s}", "type", "string"));
		json_set(schema, "additionalProperties", json_false());
	}
	json_set(schema, "properties", properties);
	return schema;
}

void json_schema_refine(json_t *schema, const char *member, json_t *more)
{
	json_t *property = json_object_get(json_object_get(schema, "properties"), member);
	if (!property)
		abort(); /* no such member in the table: a fault of ours that every test shows */
	json_object_del(more, "type");
	json_object_update(property, more);
	json_decref(more);
}

void json_schema_choices(json_t *schema, const char *member, const char *const *choices)
{
	json_t *property = json_object_get(json_object_get(schema, "properties"), member);
	json_t *all = json_array();
	for (size_t i = 0; choices[i]; i++)
		json_array_append_new(all, json_string(choices[i]));
	if (json_is_array(json_object_get(property, "type")))
		json_array_append_new(all, json_null());
	json_schema_refine(schema, member, json_pack("{s:o}", "enum", all));
}

void json_schema_items(json_t *schema, const char *member, json_t *items)
{
	json_schema_refine(schema, member, json_pack("{s:o}", "items", items));
}

json_t *json_schema_text(size_t min, size_t max, const char *pattern)
{
	json_t *text = json_pack("{s:s, s:I, s:I}", "type", "string", "minLength", (json_int_t)min,
		"maxLength", (json_int_t)max);
	if (pattern)
		json_set(text, "pattern", json_string(pattern));
	return text;
}

json_t *json_schema_document(json_t *schema, const char *title, const char *description)
{
	json_t *document = json_object();
	json_set(document, "$schema", json_string("http://json-schema.org/draft-07/schema#"));
	json_set(document, "title", json_string(title));
	json_set(document, "description", json_string(description));
	json_object_update(document, schema);
	json_decref(schema);
	return document;
}
