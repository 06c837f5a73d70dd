<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology|Labeling|Fields|Forms|MapTips|Temporal" labelsEnabled="1">
  <renderer-v2 type="categorizedSymbol" attr="if(&quot;direction&quot; IN ('appeared', 'disappeared', 'replaced'), &quot;direction&quot;, NULL)">
    <categories>
      <category value="appeared" symbol="0" label="appeared" render="true" />
      <category value="disappeared" symbol="1" label="disappeared" render="true" />
      <category value="replaced" symbol="2" label="replaced" render="true" />
      <category value="" symbol="3" label="not stated" render="true" />
    </categories>
    <symbols>
      <symbol type="fill" name="0" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="255,210,63,70" />
            <Option type="QString" name="outline_color" value="20,24,29,200" />
            <Option type="QString" name="outline_width" value="0.9" />
            <Option type="QString" name="joinstyle" value="round" />
          </Option>
        </layer>
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="0,0,0,0" />
            <Option type="QString" name="style" value="no" />
            <Option type="QString" name="outline_color" value="255,210,63,255" />
            <Option type="QString" name="outline_width" value="0.5" />
            <Option type="QString" name="joinstyle" value="round" />
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="1" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="255,122,184,255" />
            <Option type="QString" name="style" value="b_diagonal" />
            <Option type="QString" name="outline_color" value="20,24,29,200" />
            <Option type="QString" name="outline_width" value="0.9" />
            <Option type="QString" name="joinstyle" value="round" />
          </Option>
        </layer>
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="0,0,0,0" />
            <Option type="QString" name="style" value="no" />
            <Option type="QString" name="outline_color" value="255,122,184,255" />
            <Option type="QString" name="outline_width" value="0.5" />
            <Option type="QString" name="joinstyle" value="round" />
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="2" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="108,203,255,255" />
            <Option type="QString" name="style" value="diagonal_x" />
            <Option type="QString" name="outline_color" value="20,24,29,200" />
            <Option type="QString" name="outline_width" value="0.9" />
            <Option type="QString" name="joinstyle" value="round" />
          </Option>
        </layer>
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="0,0,0,0" />
            <Option type="QString" name="style" value="no" />
            <Option type="QString" name="outline_color" value="108,203,255,255" />
            <Option type="QString" name="outline_width" value="0.5" />
            <Option type="QString" name="joinstyle" value="round" />
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="3" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="242,242,242,70" />
            <Option type="QString" name="outline_color" value="20,24,29,200" />
            <Option type="QString" name="outline_width" value="0.9" />
            <Option type="QString" name="joinstyle" value="round" />
          </Option>
        </layer>
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="color" value="0,0,0,0" />
            <Option type="QString" name="style" value="no" />
            <Option type="QString" name="outline_color" value="242,242,242,255" />
            <Option type="QString" name="outline_width" value="0.5" />
            <Option type="QString" name="joinstyle" value="round" />
          </Option>
        </layer>
      </symbol>
    </symbols>
  </renderer-v2>
  <labeling type="rule-based">
    <rules key="labels">
      <rule scalemindenom="1" scalemaxdenom="12000" key="sentences" description="sentences">
        <settings calloutType="simple">
          <text-style isExpression="1" fontSize="9" fontWeight="63" fontSizeUnit="Point" textColor="0,0,0,255" textOpacity="1" multilineHeight="0.9" allowHtml="0" fieldName="trim(left(regexp_replace(to_string(&quot;caption&quot;), '(\\p{C}|\\s)+', ' '), 300))">
            <text-buffer bufferDraw="1" bufferSize="0.7" bufferSizeUnits="MM" bufferColor="255,255,255,255" bufferOpacity="0.85" bufferJoinStyle="128" bufferNoFill="1" />
          </text-style>
          <text-format autoWrapLength="28" useMaxLineLengthForAutoWrap="1" multilineAlign="1" wrapChar="" />
          <placement placement="4" dist="1" distUnits="MM" polygonPlacementFlags="3" geometryGenerator="convex_hull($geometry)" geometryGeneratorEnabled="1" geometryGeneratorType="PolygonGeometry" layerType="PolygonGeometry" priority="5" />
          <rendering drawLabels="1" obstacle="1" obstacleType="1" displayAll="0" labelPerPart="0" scaleVisibility="0" fitInPolygonOnly="0" />
        </settings>
      </rule>
      <rule scalemindenom="12000" scalemaxdenom="60000" key="labels" description="labels">
        <settings calloutType="simple">
          <text-style isExpression="1" fontSize="9" fontWeight="63" fontSizeUnit="Point" textColor="0,0,0,255" textOpacity="1" multilineHeight="0.9" allowHtml="0" fieldName="trim(left(regexp_replace(to_string(coalesce(attribute('label'), 'change')), '(\\p{C}|\\s)+', ' '), 60))">
            <text-buffer bufferDraw="1" bufferSize="0.7" bufferSizeUnits="MM" bufferColor="255,255,255,255" bufferOpacity="0.85" bufferJoinStyle="128" bufferNoFill="1" />
          </text-style>
          <text-format autoWrapLength="28" useMaxLineLengthForAutoWrap="1" multilineAlign="1" wrapChar="" />
          <placement placement="4" dist="1" distUnits="MM" polygonPlacementFlags="3" geometryGenerator="convex_hull($geometry)" geometryGeneratorEnabled="1" geometryGeneratorType="PolygonGeometry" layerType="PolygonGeometry" priority="5" />
          <rendering drawLabels="1" obstacle="1" obstacleType="1" displayAll="0" labelPerPart="0" scaleVisibility="0" fitInPolygonOnly="0" />
        </settings>
      </rule>
    </rules>
  </labeling>
  <fieldConfiguration>
    <field name="direction">
      <editWidget type="ValueMap">
        <config>
          <Option type="Map">
            <Option type="List" name="map">
              <Option type="Map">
                <Option type="QString" name="appeared" value="appeared" />
              </Option>
              <Option type="Map">
                <Option type="QString" name="disappeared" value="disappeared" />
              </Option>
              <Option type="Map">
                <Option type="QString" name="replaced" value="replaced" />
              </Option>
              <Option type="Map">
                <Option type="QString" name="not stated" value="{2839923C-8B7D-419E-B84B-CA2FE9B80EC7}" />
              </Option>
            </Option>
          </Option>
        </config>
      </editWidget>
    </field>
    <field name="review_status">
      <editWidget type="ValueMap">
        <config>
          <Option type="Map">
            <Option type="List" name="map">
              <Option type="Map">
                <Option type="QString" name="not reviewed" value="{2839923C-8B7D-419E-B84B-CA2FE9B80EC7}" />
              </Option>
              <Option type="Map">
                <Option type="QString" name="confirmed" value="confirmed" />
              </Option>
              <Option type="Map">
                <Option type="QString" name="wrong place" value="wrong place" />
              </Option>
              <Option type="Map">
                <Option type="QString" name="wrong words" value="wrong words" />
              </Option>
            </Option>
          </Option>
        </config>
      </editWidget>
    </field>
  </fieldConfiguration>
  <aliases>
    <alias field="id" name="Number" />
    <alias field="caption" name="Sentence" />
    <alias field="alternatives" name="Other sentences" />
    <alias field="score" name="Score" />
    <alias field="change_probability" name="Probability of change" />
    <alias field="area_m2" name="Area (m²)" />
    <alias field="date_before" name="Date before" />
    <alias field="date_after" name="Date after" />
    <alias field="before" name="Scene before" />
    <alias field="after" name="Scene after" />
    <alias field="model" name="Model" />
    <alias field="model_version" name="Version of the model" />
    <alias field="label" name="Label" />
    <alias field="outline_of" name="Kind of outline" />
    <alias field="count" name="Objects" />
    <alias field="count_sure" name="Certain objects" />
    <alias field="direction" name="Direction" />
    <alias field="came" name="Added" />
    <alias field="gone" name="Removed" />
    <alias field="before_cover" name="Ground before" />
    <alias field="largest_m2" name="Largest object (m²)" />
    <alias field="median_m2" name="Median object (m²)" />
    <alias field="changed_m2" name="Changed area (m²)" />
    <alias field="changed_back_m2" name="Changed back (m²)" />
    <alias field="changed_at_least" name="Changed area is a minimum" />
    <alias field="place" name="Location" />
    <alias field="arrangement" name="Arrangement" />
    <alias field="cut_by_edge" name="Cut by the edge" />
    <alias field="caption_confident" name="Sentence is certain" />
    <alias field="may_be_destroyed" name="May be destroyed" />
    <alias field="familiarity" name="Familiarity of the ground" />
    <alias field="context" name="Inside" />
    <alias field="source_id" name="Id in the given layer" />
    <alias field="supported" name="Share seen as changed" />
    <alias field="not_judged" name="Why not judged" />
    <alias field="review_status" name="Verdict" />
    <alias field="reviewer" name="Reviewer" />
    <alias field="reviewer_caption" name="Right words" />
    <alias field="reviewer_note" name="Note" />
    <alias field="reviewed_at" name="Reviewed at" />
  </aliases>
  <temporal enabled="1" mode="4" limitMode="0" startExpression="to_datetime(concat(&quot;date_after&quot;, substr('0000-01-01', length(&quot;date_after&quot;) + 1)))" endExpression="" fixedDuration="0" durationUnit="min" accumulate="0" startField="" endField="" durationField="">
    <fixedRange>
      <start></start>
      <end></end>
    </fixedRange>
  </temporal>
  <mapTip enabled="1">&lt;div style="width:22em"&gt;&lt;p&gt;&lt;b&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string("caption"), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/b&gt;&lt;/p&gt;[% coalesce('&lt;img src="data:image/jpeg;base64,' || to_base64(attribute('chip_before')) || '"&gt; ', '') %][% coalesce('&lt;img src="data:image/jpeg;base64,' || to_base64(attribute('chip_after')) || '"&gt; ', '') %]&lt;table&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;what&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(coalesce(if("direction" IN ('appeared', 'disappeared', 'replaced'), concat(with_variable('classes', if("direction" = 'disappeared', regexp_replace(try(array_to_string("gone", ', '), "gone"), '[\\[\\]"]', ''), regexp_replace(try(array_to_string("came", ', '), "came"), '[\\[\\]"]', '')), CASE WHEN @classes LIKE '%building%' OR @classes LIKE '%construction site%' THEN 'building' WHEN @classes LIKE '%road%' THEN 'road' WHEN @classes LIKE '%trees%' OR @classes LIKE '%grass%' OR @classes LIKE '%farmland%' OR @classes LIKE '%vegetation%' OR @classes LIKE '%dense vegetation%' OR @classes LIKE '%green cover%' THEN 'vegetation' ELSE 'other' END), ' ', "direction"), NULL), 'not stated')), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;objects&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(if("count_sure" &lt; "count", concat("count", ', ', "count_sure", ' sure'), "count")), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;area&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(concat(format_number("area_m2", 0), ' m²')), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;largest&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(concat(format_number("largest_m2", 0), ' m²')), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;dates&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(concat(coalesce("date_before", '–'), ' → ', coalesce("date_after", '–'))), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;place&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string("place"), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;arrangement&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string("arrangement"), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;ground before&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(regexp_replace(try(array_to_string("before_cover", ', '), "before_cover"), '[\\[\\]"]', '')), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;score&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(round("score", 2)), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;probability of change&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(round("change_probability", 2)), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;scenes&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(concat("before", ' → ', "after")), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;tr&gt;&lt;td&gt;&lt;i&gt;model&lt;/i&gt;&lt;/td&gt;&lt;td&gt;[% coalesce(nullif(replace(trim(left(regexp_replace(to_string(concat("model", ' ', "model_version")), '(\\p{C}|\\s)+', ' '), 300)), array('&amp;', '&lt;', '&gt;', '"', '''', '[', '%'), array('&amp;amp;', '&amp;lt;', '&amp;gt;', '&amp;quot;', '&amp;#39;', '&amp;#91;', '&amp;#37;')), ''), '–') %]&lt;/td&gt;&lt;/tr&gt;&lt;/table&gt;&lt;/div&gt;</mapTip>
</qgis>
